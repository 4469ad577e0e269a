#include "codegen_cpu/jit.h"

#include "codegen_cpu/object.h"
#include "compiler/base/error.h"
#include "llvm/Object/ObjectFile.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/TargetSelect.h"

namespace gc::cpu {
namespace {

// The value, or an internal error with LLVM's words.
template <class T>
T unwrap(llvm::Expected<T> value, std::string_view doing) {
  if (!value) throw_internal(doing, ": ", llvm::toString(value.takeError()));
  return std::move(*value);
}

void check_complete(llvm::MemoryBufferRef object) {
  const auto file = unwrap(llvm::object::ObjectFile::createObjectFile(object), "reading the object");
  for (const llvm::object::SymbolRef& symbol : file->symbols()) {
    const std::uint32_t flags = unwrap(symbol.getFlags(), "reading a symbol");
    if (!(flags & llvm::object::SymbolRef::SF_Undefined)) continue;
    const std::string name = unwrap(symbol.getName(), "reading a symbol").str();
    GC_CHECK(name.empty() || name == "_GLOBAL_OFFSET_TABLE_", "kernels call ", name);
  }
}

}  // namespace

Jit::Jit(Emitter& emitter) : prefix_(emitter.prefix()) {
  const std::unique_ptr<llvm::Module> module = emitter.take();
  auto object = llvm::MemoryBuffer::getMemBufferCopy(compile_object(*module, emitter.isa()), "kernels");
  check_complete(object->getMemBufferRef());
  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();
  jit_ = unwrap(llvm::orc::LLJITBuilder().create(), "starting ORC");
  if (llvm::Error error = jit_->addObjectFile(std::move(object))) {
    throw_internal("loading the object: ", llvm::toString(std::move(error)));
  }
}

Jit::~Jit() = default;

std::uint64_t Jit::address(const std::string& symbol) {
  return unwrap(jit_->lookup(symbol), "looking up a kernel").getValue();
}

}  // namespace gc::cpu
