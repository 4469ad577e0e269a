#include "codegen_cpu/emitter.h"

#include "compiler/base/error.h"
#include "llvm/IR/Verifier.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/TargetParser/Triple.h"

namespace gc::cpu {

using llvm::BasicBlock;
using llvm::Value;

Value* Args::operator[](std::string_view name) const {
  for (llvm::Argument& arg : f_->args()) {
    if (std::string_view(arg.getName()) == name) return &arg;
  }
  throw_internal("kernel ", std::string_view(f_->getName()), " has no argument '", name, "'");
}

Emitter::Emitter(llvm::LLVMContext& context, const Isa& isa, std::string module_name, std::string prefix)
    : context_(context),
      isa_(isa),
      prefix_(std::move(prefix)),
      module_(std::make_unique<llvm::Module>(module_name, context)),
      builder_(context) {
  module_->setTargetTriple(llvm::Triple(triple(isa.arch())));
  module_->setPICLevel(llvm::PICLevel::BigPIC);
}

Emitter::~Emitter() = default;

std::unique_ptr<llvm::Module> Emitter::take() {
  std::string text;
  llvm::raw_string_ostream stream(text);
  GC_CHECK(!llvm::verifyModule(*module_, &stream), text);
  return std::move(module_);
}

namespace {

llvm::Type* type_of(Arg::Kind kind, llvm::IRBuilder<>& b) {
  switch (kind) {
    case Arg::Kind::In:
    case Arg::Kind::Out:
    case Arg::Kind::Ptr:
      return b.getPtrTy();
    case Arg::Kind::I64:
      return b.getInt64Ty();
    case Arg::Kind::I32:
      return b.getInt32Ty();
    case Arg::Kind::F32:
      return b.getFloatTy();
  }
  throw_internal("argument kind");
}

void set_attributes(llvm::Function* f, const Isa& isa) {
  f->setVisibility(llvm::GlobalValue::HiddenVisibility);
  f->setDSOLocal(true);
  f->addFnAttr(llvm::Attribute::NoUnwind);
  f->addFnAttr("target-cpu", isa.llvm_cpu);
  if (*isa.llvm_features) f->addFnAttr("target-features", isa.llvm_features);
  // LLVM must neither narrow our vectors nor find libc functions in our loops.
  const std::string bits = std::to_string(isa.vector_bytes * 8);
  f->addFnAttr("prefer-vector-width", bits);
  f->addFnAttr("min-legal-vector-width", bits);
  f->addFnAttr("no-builtins");
  f->addFnAttr("frame-pointer", "none");
}

}  // namespace

llvm::Function* Emitter::function(std::string_view name, std::vector<Arg> args, const Body& body,
                                  llvm::Type* result) {
  const std::string symbol = prefix_ + std::string(name);
  if (llvm::Function* f = module_->getFunction(symbol)) return f;
  std::vector<llvm::Type*> types;
  for (const Arg& arg : args) types.push_back(type_of(arg.kind, builder_));
  auto* type = llvm::FunctionType::get(result ? result : builder_.getVoidTy(), types, false);
  auto* f = llvm::Function::Create(type, llvm::GlobalValue::ExternalLinkage, symbol, *module_);
  set_attributes(f, isa_);
  for (std::size_t i = 0; i < args.size(); ++i) {
    f->getArg(i)->setName(args[i].name);
    if (args[i].kind == Arg::Kind::In || args[i].kind == Arg::Kind::Out) {
      f->addParamAttr(i, llvm::Attribute::NoAlias);
    }
    if (args[i].kind == Arg::Kind::In) f->addParamAttr(i, llvm::Attribute::ReadOnly);
  }
  llvm::IRBuilder<>::InsertPointGuard guard(builder_);
  builder_.SetInsertPoint(BasicBlock::Create(context_, "entry", f));
  body(Args(f));
  if (!builder_.GetInsertBlock()->getTerminator()) {
    GC_CHECK(!result, "kernel ", name, " ends without a result");
    builder_.CreateRetVoid();
  }
  return f;
}

Value* Emitter::at(Value* base, Value* bytes) { return builder_.CreatePtrAdd(base, bytes); }

Value* Emitter::at(Value* base, Value* index, Value* stride, std::int64_t offset) {
  Value* bytes = builder_.CreateMul(index, stride, "", /*HasNUW=*/false, /*HasNSW=*/true);
  Value* p = builder_.CreatePtrAdd(base, bytes);
  return offset == 0 ? p : builder_.CreatePtrAdd(p, i64(offset));
}

Value* Emitter::load(llvm::Type* type, Value* p, unsigned align) {
  return builder_.CreateAlignedLoad(type, p, llvm::Align(align));
}

void Emitter::store(Value* value, Value* p, unsigned align) {
  builder_.CreateAlignedStore(value, p, llvm::Align(align));
}

Value* Emitter::stack(std::int64_t bytes) {
  llvm::IRBuilder<>::InsertPointGuard guard(builder_);
  BasicBlock& entry = builder_.GetInsertBlock()->getParent()->getEntryBlock();
  builder_.SetInsertPoint(&entry, entry.getFirstInsertionPt());
  auto* a = builder_.CreateAlloca(llvm::ArrayType::get(builder_.getInt8Ty(), bytes));
  a->setAlignment(llvm::Align(64));
  return a;
}

Value* Emitter::floats(const std::vector<float>& values) {
  llvm::Constant* data = llvm::ConstantDataArray::get(context_, values);
  auto* g =
      new llvm::GlobalVariable(*module_, data->getType(), true, llvm::GlobalValue::PrivateLinkage, data);
  g->setAlignment(llvm::Align(64));
  return g;
}

void Emitter::prefetch(Value* p, int locality) {
  builder_.CreateIntrinsic(llvm::Intrinsic::prefetch, {ptr()}, {p, i32(0), i32(locality), i32(1)});
}

void Emitter::for_range(Value* lo, Value* hi, std::int64_t step, const std::function<void(Value*)>& body) {
  for_range(lo, hi, step, Values{}, [&](Value* i, const Values&) {
    body(i);
    return Values{};
  });
}

Emitter::Values Emitter::for_range(Value* lo, Value* hi, std::int64_t step, Values init,
                                   const std::function<Values(Value*, const Values&)>& body) {
  llvm::Function* f = builder_.GetInsertBlock()->getParent();
  BasicBlock* before = builder_.GetInsertBlock();
  auto* loop = BasicBlock::Create(context_, "loop", f);
  auto* done = BasicBlock::Create(context_, "done", f);
  builder_.CreateCondBr(builder_.CreateICmpSLT(lo, hi), loop, done);
  builder_.SetInsertPoint(loop);
  llvm::PHINode* i = builder_.CreatePHI(builder_.getInt64Ty(), 2, "i");
  i->addIncoming(lo, before);
  Values carried;
  for (Value* v : init) {
    llvm::PHINode* phi = builder_.CreatePHI(v->getType(), 2);
    phi->addIncoming(v, before);
    carried.push_back(phi);
  }
  const Values next = body(i, carried);
  GC_CHECK(next.size() == init.size());
  BasicBlock* latch = builder_.GetInsertBlock();
  Value* i_next = builder_.CreateAdd(i, i64(step), "", /*HasNUW=*/false, /*HasNSW=*/true);
  i->addIncoming(i_next, latch);
  for (std::size_t k = 0; k < next.size(); ++k)
    llvm::cast<llvm::PHINode>(carried[k])->addIncoming(next[k], latch);
  builder_.CreateCondBr(builder_.CreateICmpSLT(i_next, hi), loop, done);
  builder_.SetInsertPoint(done);
  Values results;
  for (std::size_t k = 0; k < next.size(); ++k) {
    llvm::PHINode* phi = builder_.CreatePHI(init[k]->getType(), 2);
    phi->addIncoming(init[k], before);
    phi->addIncoming(next[k], latch);
    results.push_back(phi);
  }
  return results;
}

void Emitter::if_then(Value* condition, const std::function<void()>& then) {
  if_else(
      condition,
      [&] {
        then();
        return Values{};
      },
      [] { return Values{}; });
}

Emitter::Values Emitter::if_else(Value* condition, const std::function<Values()>& then,
                                 const std::function<Values()>& otherwise) {
  llvm::Function* f = builder_.GetInsertBlock()->getParent();
  auto* yes = BasicBlock::Create(context_, "then", f);
  auto* no = BasicBlock::Create(context_, "else", f);
  auto* join = BasicBlock::Create(context_, "join", f);
  builder_.CreateCondBr(condition, yes, no);
  builder_.SetInsertPoint(yes);
  const Values a = then();
  BasicBlock* yes_end = builder_.GetInsertBlock();
  builder_.CreateBr(join);
  builder_.SetInsertPoint(no);
  const Values c = otherwise();
  BasicBlock* no_end = builder_.GetInsertBlock();
  builder_.CreateBr(join);
  builder_.SetInsertPoint(join);
  GC_CHECK(a.size() == c.size());
  Values results;
  for (std::size_t k = 0; k < a.size(); ++k) {
    llvm::PHINode* phi = builder_.CreatePHI(a[k]->getType(), 2);
    phi->addIncoming(a[k], yes_end);
    phi->addIncoming(c[k], no_end);
    results.push_back(phi);
  }
  return results;
}

}  // namespace gc::cpu
