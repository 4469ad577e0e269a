#include "codegen_cpu/emit.h"

#include <algorithm>
#include <cstddef>
#include <map>

#include "codegen_cpu/describe.h"
#include "codegen_cpu/frame.h"
#include "codegen_cpu/kernels/matmul/tile_matmul.h"
#include "codegen_cpu/section/section.h"
#include "compiler/base/error.h"
#include "llvm/IR/Constants.h"
#include "llvm/Support/raw_ostream.h"

namespace gc::cpu {
namespace {

using llvm::Value;

// A section: its function, and the table that the function is given.
struct Section {
  llvm::Function* function = nullptr;
  llvm::Constant* table = nullptr;
};

class ProgramEmitter {
 public:
  ProgramEmitter(Emitter& e, const plan::Plan& plan) : e_(e), plan_(plan) {}

  void run() {
    Entries entries{};
    for (int kv_type = 0; kv_type < int{GC_KV_TYPES}; ++kv_type) {
      llvm::Function* f = entry(kv_type);
      // Sections take prompt rows and generated rows apart where their arithmetic differs, so one entry serves any mix.
      // Where rows see later ones, whole texts alone make sense.
      if (sees_ahead()) {
        entries[GC_ENTRY_ENCODE][kv_type] = f;
        continue;
      }
      for (int kind : {GC_ENTRY_PREFILL, GC_ENTRY_DECODE, GC_ENTRY_MIXED}) entries[kind][kv_type] = f;
    }
    describe_program(e_, plan_, entries);
  }

 private:
  bool sees_ahead() const {
    return std::any_of(plan_.graph.ops.begin(), plan_.graph.ops.end(),
                       [](const ir::Op& op) { return op.i64_or(ir::AttrName::ahead, 0) != 0; });
  }

  Section section(int index, int kv_type) {
    std::vector<int64_t> constants;
    const std::string name = cat("section_", ++made_);
    llvm::Function* f = e_.function(name, {ptr("frame"), in("table")}, [&](const Args& a) {
      emit_section(e_, plan_, index, kv_type, a["frame"], a["table"], constants);
    });
    llvm::Function* same = known(f);
    if (same != f) f->eraseFromParent();
    std::vector<llvm::Constant*> all;
    for (int64_t v : constants) all.push_back(e_.b().getInt64(static_cast<uint64_t>(v)));
    if (all.empty()) all.push_back(e_.b().getInt64(0));
    auto* type = llvm::ArrayType::get(e_.b().getInt64Ty(), all.size());
    auto* table = new llvm::GlobalVariable(e_.module(), type, true, llvm::GlobalValue::PrivateLinkage,
                                           llvm::ConstantArray::get(type, all));
    table->setAlignment(llvm::Align(8));
    return {same, table};
  }

  // An earlier function of the same text, else this one.
  llvm::Function* known(llvm::Function* f) {
    std::string text;
    llvm::raw_string_ostream out(text);
    for (const llvm::BasicBlock& block : *f) block.print(out);
    auto [it, fresh] = functions_.try_emplace(text, f);
    return it->second;
  }

  llvm::Function* entry(int kv_type) {
    std::vector<Section> sections;
    for (int i = 0; i < plan_.n_layer() + 2; ++i) sections.push_back(section(i, kv_type));
    auto& b = e_.b();
    return e_.function(
        cat("step_kv", kv_type), {ptr("step"), {"worker", Arg::Kind::I32}},
        [&](const Args& a) {
          refuse_unsupported(a["step"]);
          const Frame frame = Frame::build(e_, plan_, a["step"], a["worker"]);
          begin_tiles(frame);
          call(sections.front(), frame);
          for (int layer = 0; layer < plan_.n_layer(); ++layer) {
            leave_if_aborted(frame, layer);
            call(sections[layer + 1], frame);
          }
          e_.if_then(b.CreateICmpNE(frame.i64(Slot::n_outputs), e_.i64(0)),
                     [&] { call(sections.back(), frame); });
          end_tiles(frame);
          b.CreateRet(e_.i32(GC_OK));
        },
        b.getInt32Ty());
  }

  void call(const Section& s, const Frame& frame) {
    e_.b().CreateCall(s.function, {frame.pointer(), s.table});
  }

  // Tiles in use cost the system at every switch of threads, so only steps with prompt rows have them.
  void begin_tiles(const Frame& frame) {
    if (e_.isa().has_amx) if_prompt(frame, [&] { e_.b().CreateCall(tiles_begin(e_)); });
  }
  void end_tiles(const Frame& frame) {
    if (e_.isa().has_amx) if_prompt(frame, [&] { e_.b().CreateCall(tiles_end(e_)); });
  }
  void if_prompt(const Frame& frame, const std::function<void()>& then) {
    e_.if_then(e_.b().CreateICmpNE(frame.i64(Slot::n_prompt), e_.i64(0)), then);
  }

  void return_if(Value* condition, int32_t status, const std::function<void()>& first = [] {}) {
    auto& b = e_.b();
    llvm::Function* f = b.GetInsertBlock()->getParent();
    auto* leave = llvm::BasicBlock::Create(e_.context(), "leave", f);
    auto* go_on = llvm::BasicBlock::Create(e_.context(), "", f);
    b.CreateCondBr(condition, leave, go_on);
    b.SetInsertPoint(leave);
    first();
    b.CreateRet(e_.i32(status));
    b.SetInsertPoint(go_on);
  }

  // What the seam has room for and this code doesn't do: layer ranges, embeddings as a sink.
  void refuse_unsupported(Value* step) {
    auto& b = e_.b();
    auto differs = [&](size_t at, int64_t from) {
      return b.CreateICmpNE(e_.member_i32(step, static_cast<int64_t>(at)), e_.i32(from));
    };
    return_if(b.CreateOr(differs(offsetof(gc_step, layer_first), 0),
                         differs(offsetof(gc_step, layer_last), plan_.n_layer())),
              GC_ERR_UNSUPPORTED);
    Value* sink = e_.member_ptr(step, offsetof(gc_step, sink));
    static_assert(GC_SINK_LOGITS == 0 && GC_SINK_ARGMAX == 1 && GC_SINK_TOPK == 2);
    Value* kind = e_.member_i32(sink, offsetof(gc_sink, kind));
    if (plan_.graph.encoder)
      return return_if(b.CreateAnd(b.CreateICmpNE(kind, e_.i32(GC_SINK_EMBEDDING)),
                                   differs(offsetof(gc_step, n_outputs), 0)),
                       GC_ERR_UNSUPPORTED);
    return_if(b.CreateICmpUGT(kind, e_.i32(choosing_head(plan_) ? GC_SINK_TOPK : GC_SINK_LOGITS)),
              GC_ERR_UNSUPPORTED);
    Value* choice = e_.member_ptr(sink, offsetof(gc_sink, choice));
    return_if(b.CreateAnd(b.CreateICmpNE(kind, e_.i32(GC_SINK_LOGITS)),
                          b.CreateICmpEQ(choice, llvm::ConstantPointerNull::get(b.getPtrTy()))),
              GC_ERR_UNSUPPORTED);
  }

  // All workers must leave at the same layer, or those left would wait at a meet for ever. So worker 0 alone looks at
  // the flag and writes what it saw; the others read that one layer later, after a meet. Two words in turn: worker 0
  // can't be two layers ahead of a reader.
  void leave_if_aborted(const Frame& frame, int layer) {
    auto& b = e_.b();
    Value* arena = frame.ptr(Slot::arena);
    if (layer > 0) {
      Value* seen = b.CreateAlignedLoad(b.getInt32Ty(), e_.at(arena, 4 * ((layer - 1) % 2)), llvm::Align(4));
      return_if(b.CreateICmpNE(seen, e_.i32(0)), GC_ERR_ABORTED, [&] { end_tiles(frame); });
    }
    e_.if_then(b.CreateICmpEQ(frame.i64(Slot::worker), e_.i64(0)), [&] {
      Value* flag = e_.member_ptr(frame.ptr(Slot::step), offsetof(gc_step, abort));
      auto* value = b.CreateAlignedLoad(b.getInt32Ty(), flag, llvm::Align(4));
      value->setAtomic(llvm::AtomicOrdering::Monotonic);
      e_.store(value, e_.at(arena, 4 * (layer % 2)), 4);
    });
  }

  Emitter& e_;
  const plan::Plan& plan_;
  std::map<std::string, llvm::Function*> functions_;
  int made_ = 0;
};

}  // namespace

void emit_program(Emitter& e, const plan::Plan& plan) { ProgramEmitter(e, plan).run(); }

int shards_of(const plan::Plan& plan) { return plan.n_layer() > 2 ? 4 : 1; }

}  // namespace gc::cpu
