// The frame in which kernels are emitted: one LLVM module for one ISA, an IRBuilder, functions made once and found
// again by name, and loops.
//
// A kernel function's name is its type ("rms_norm_640_q16"): asking twice for it gives the same function, so a model
// of 60 equal layers has one. The name is also what profiles and dumps show. In the module it has a prefix, by which
// programs for several ISAs link into one file; it is hidden and dso-local, so calls need no PLT.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "codegen_cpu/isa.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"

namespace gc::cpu {

// An argument of a kernel. In: memory only read, that nobody writes meanwhile. Out: memory that no other argument
// reaches. Ptr: a pointer that may alias others. Rows are contiguous or have a stride in bytes (i64).
struct Arg {
  enum class Kind { In, Out, Ptr, I64, I32, F32 };
  const char* name;
  Kind kind;
};
inline Arg in(const char* name) { return {name, Arg::Kind::In}; }
inline Arg out(const char* name) { return {name, Arg::Kind::Out}; }
inline Arg ptr(const char* name) { return {name, Arg::Kind::Ptr}; }
inline Arg i64(const char* name) { return {name, Arg::Kind::I64}; }

class Args {
 public:
  explicit Args(llvm::Function* f) : f_(f) {}
  llvm::Value* operator[](std::string_view name) const;  // GC_CHECKs that it is there

 private:
  llvm::Function* f_;
};

class Emitter {
 public:
  // `prefix` goes in front of every symbol.
  Emitter(llvm::LLVMContext& context, const Isa& isa, std::string module_name, std::string prefix = "");
  ~Emitter();
  Emitter(const Emitter&) = delete;

  llvm::LLVMContext& context() { return context_; }
  llvm::Module& module() { return *module_; }
  llvm::IRBuilder<>& b() { return builder_; }
  const Isa& isa() const { return isa_; }
  const std::string& prefix() const { return prefix_; }
  // Ends emission: verifies the module (GC_CHECK) and hands it over.
  std::unique_ptr<llvm::Module> take();

  // The function of this name; made on the first call, by running `body` with the builder at its entry. Safe to call
  // while another function is being emitted. Returns void unless `result` is given; a missing `ret void` is added.
  using Body = std::function<void(const Args&)>;
  llvm::Function* function(std::string_view name, std::vector<Arg> args, const Body& body,
                           llvm::Type* result = nullptr);

  llvm::Type* f32() { return builder_.getFloatTy(); }
  llvm::Type* f16() { return builder_.getHalfTy(); }
  llvm::Type* ptr() { return builder_.getPtrTy(); }
  llvm::Value* i32(std::int64_t v) { return builder_.getInt32(static_cast<std::uint32_t>(v)); }
  llvm::Value* i64(std::int64_t v) { return builder_.getInt64(static_cast<std::uint64_t>(v)); }
  llvm::Value* f32(double v) { return llvm::ConstantFP::get(builder_.getFloatTy(), v); }

  // base + bytes.
  llvm::Value* at(llvm::Value* base, llvm::Value* bytes);
  llvm::Value* at(llvm::Value* base, std::int64_t bytes) { return at(base, i64(bytes)); }
  // base + index * stride + offset, all in bytes.
  llvm::Value* at(llvm::Value* base, llvm::Value* index, llvm::Value* stride, std::int64_t offset = 0);
  llvm::Value* at(llvm::Value* base, llvm::Value* index, std::int64_t stride, std::int64_t offset = 0) {
    return at(base, index, i64(stride), offset);
  }
  llvm::Value* load(llvm::Type* type, llvm::Value* p, unsigned align);
  void store(llvm::Value* value, llvm::Value* p, unsigned align);
  // Of a C struct's member at a byte offset, naturally aligned.
  llvm::Value* member_i32(llvm::Value* base, std::int64_t offset) {
    return load(builder_.getInt32Ty(), at(base, offset), 4);
  }
  llvm::Value* member_i64(llvm::Value* base, std::int64_t offset) {
    return load(builder_.getInt64Ty(), at(base, offset), 8);
  }
  llvm::Value* member_ptr(llvm::Value* base, std::int64_t offset) { return load(ptr(), at(base, offset), 8); }
  // Stack memory of the whole function, aligned to 64 bytes. For small sizes known now.
  llvm::Value* stack(std::int64_t bytes);
  // Constant f32s in the program's data, aligned to 64 bytes.
  llvm::Value* floats(const std::vector<float>& values);
  // Lines from p on are wanted soon: locality 3 keeps them in all levels, 0 in none.
  void prefetch(llvm::Value* p, int locality = 3);

  // for (i = lo; i < hi; i += step) body(i). i64, signed.
  void for_range(llvm::Value* lo, llvm::Value* hi, std::int64_t step,
                 const std::function<void(llvm::Value*)>& body);
  void for_range(std::int64_t lo, std::int64_t hi, std::int64_t step,
                 const std::function<void(llvm::Value*)>& body) {
    for_range(i64(lo), i64(hi), step, body);
  }
  // The same with values carried around the loop: body maps their values at the start of an iteration to those at
  // its end; the result is those after the last.
  using Values = std::vector<llvm::Value*>;
  Values for_range(llvm::Value* lo, llvm::Value* hi, std::int64_t step, Values init,
                   const std::function<Values(llvm::Value*, const Values&)>& body);
  void if_then(llvm::Value* condition, const std::function<void()>& then);
  // Phis of what both sides give; as many values on either.
  Values if_else(llvm::Value* condition, const std::function<Values()>& then,
                 const std::function<Values()>& otherwise);

 private:
  llvm::LLVMContext& context_;
  const Isa& isa_;
  std::string prefix_;
  std::unique_ptr<llvm::Module> module_;
  llvm::IRBuilder<> builder_;
};

}  // namespace gc::cpu
