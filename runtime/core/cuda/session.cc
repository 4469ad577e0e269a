// Steps on a GPU: the step's rows, outputs and tables of blocks go up in one copy, the launches follow one another in a
// stream, the outputs' logits come back.
#include "runtime/core/session.h"

#include <string.h>

#include "runtime/core/cuda/device.h"

namespace gcrt::cuda {
namespace {

using At = gc::device::At;
using Row = gc::device::Row;
using gc::device::Seq;
static_assert(sizeof(Row) == sizeof(gc_row) && sizeof(Seq) == sizeof(gc_seq));

uint64_t address(const void* p) { return reinterpret_cast<uint64_t>(p); }

class CudaSession final : public DeviceSession {
 public:
  CudaSession(CudaDevice& device, Allocator a) : device_(device), allocator_(a), one_(a), many_(a) {}

  Status open(const SessionOptions& o, const gc_program& program, Span<char> message);
  Status step(const gc_step& step, float* logits, uint64_t stride) override;
  void close() override;

 private:
  // In the copy of a step: where its parts begin.
  struct Parts {
    uint64_t outputs, seqs, tables, end;
  };
  bool place_operands(const gc_cuda_launch* launches, uint32_t n, Vec<At>* to);
  int send(const gc_step& step);
  int launch(const gc_cuda_launch& launch, const At& at, const gc_step& step, uint32_t ranges,
             const gc::device::Step& arguments);

  CudaDevice& device_;
  Allocator allocator_;
  gc_cuda_sizes sizes_ = {};
  uint64_t logits_stride_ = 0;
  Parts parts_ = {};
  uint32_t n_groups_ = 0;
  Vec<At> one_, many_;  // operands of the launches
  void* stream_ = nullptr;
  uint8_t *arena_ = nullptr, *logits_ = nullptr, *sent_ = nullptr;  // on the device
  uint8_t* staged_ = nullptr;                                       // pinned: what is sent
};

bool CudaSession::place_operands(const gc_cuda_launch* launches, uint32_t n, Vec<At>* to) {
  if (!to->resize(n)) return false;
  for (uint32_t i = 0; i < n; ++i) (*to)[i] = gc_cuda_operands(device_.image(), launches[i], sizes_);
  return true;
}

Status CudaSession::open(const SessionOptions& o, const gc_program& program, Span<char> message) {
  const gc_cuda_image& image = device_.image();
  sizes_ = {o.n_ubatch, o.n_outputs, gc_cuda_ranges(o.n_ctx)};
  logits_stride_ = Session::logits_stride_of(program);
  n_groups_ = program.n_groups;
  const KvOptions kv = {o.n_seqs, o.n_ctx, o.n_ubatch, o.kv_type, o.n_held, o.held_tokens};
  uint64_t entries = 0;
  for (uint32_t g = 0; g < n_groups_; ++g) entries += kv_table_blocks(program.groups[g], kv);
  parts_.outputs = gc_arena_align(o.n_ubatch * sizeof(Row));
  parts_.seqs = parts_.outputs + gc_arena_align(o.n_outputs * sizeof(uint32_t));
  parts_.tables = parts_.seqs + gc_arena_align(o.n_seqs * sizeof(Seq));
  parts_.end = parts_.tables + gc_arena_align(o.n_seqs * entries * sizeof(uint32_t));
  if (!place_operands(device_.table<gc_cuda_launch>(image.one), image.n_one, &one_) ||
      !place_operands(device_.table<gc_cuda_launch>(image.many), image.n_many, &many_))
    return kErrMemory;

  const uint64_t arena = static_cast<uint64_t>(gc_cuda_arena(image, sizes_).end),
                 logits = o.n_outputs * logits_stride_ * sizeof(float);
  arena_ = device_.get(arena);
  logits_ = device_.get(logits);
  sent_ = device_.get(parts_.end);
  const Driver& driver = device_.driver();
  if (driver.pinned_get(reinterpret_cast<void**>(&staged_), parts_.end, 0) != 0) staged_ = nullptr;
  if (driver.stream_make(&stream_, 0) != 0) stream_ = nullptr;
  if (arena_ != nullptr && logits_ != nullptr && sent_ != nullptr && staged_ != nullptr && stream_ != nullptr)
    return kOk;
  Writer w(message.data(), message.size());
  format(w, "not enough memory: steps of ", o.n_ubatch, " tokens with a context of ", o.n_ctx, " need ",
         arena + logits + parts_.end, " bytes beside the KV cache, ");
  device_.say_free(w);
  return kErrMemory;
}

void CudaSession::close() {
  device_.use();
  const Driver& driver = device_.driver();
  if (stream_ != nullptr) device_.note(driver.stream_end(stream_));
  if (staged_ != nullptr) device_.note(driver.pinned_put(staged_));
  uint8_t* const all[] = {arena_, logits_, sent_};
  for (uint8_t* at : all)
    if (at != nullptr) device_.put(at);
  const Allocator allocator = allocator_;
  this->~CudaSession();
  allocator.put(this, sizeof *this, alignof(CudaSession));
}

// Rows, outputs, and tables whose pointers are the device's.
int CudaSession::send(const gc_step& step) {
  memcpy(staged_, step.rows, step.n_rows * sizeof(Row));
  memcpy(staged_ + parts_.outputs, step.outputs, step.n_outputs * sizeof(uint32_t));
  uint64_t at = parts_.tables;
  for (uint32_t s = 0; s < step.n_seqs; ++s) {
    Seq seq = {};
    for (uint32_t g = 0; g < n_groups_; ++g) {
      const gc_table& table = step.seqs[s].tables[g];
      const uint64_t bytes = table.n * sizeof(uint32_t);
      memcpy(staged_ + at, table.blocks, bytes);
      seq.tables[g] = {reinterpret_cast<const uint32_t*>(sent_ + at), table.n, 0};
      at += bytes;
    }
    memcpy(staged_ + parts_.seqs + s * sizeof seq, &seq, sizeof seq);
  }
  return device_.driver().write_async(address(sent_), staged_, at, stream_);
}

int CudaSession::launch(const gc_cuda_launch& launch, const At& at, const gc_step& step, uint32_t ranges,
                        const gc::device::Step& arguments) {
  const gc_cuda_grid grid = gc_cuda_grid_of(launch, step.n_rows, step.n_outputs, ranges);
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return 0;
  void* parameters[] = {const_cast<gc::device::Step*>(&arguments), const_cast<At*>(&at)};
  return device_.driver().launch(device_.function(launch.kernel), static_cast<unsigned>(grid.x),
                                 static_cast<unsigned>(grid.y), static_cast<unsigned>(grid.z),
                                 GC_CUDA_THREADS, 1, 1, 0, stream_, parameters, nullptr);
}

Status CudaSession::step(const gc_step& step, float* logits, uint64_t stride) {
  if (step.n_outputs != 0 && stride != logits_stride_) return kErrArgument;
  device_.use();
  int32_t last = 0;
  for (uint32_t i = 0; i < step.n_rows; ++i) last = max_of(last, step.rows[i].pos);
  gc::device::Step arguments = {};
  arguments.rows = reinterpret_cast<const Row*>(sent_);
  arguments.outputs = reinterpret_cast<const uint32_t*>(sent_ + parts_.outputs);
  arguments.seqs = reinterpret_cast<const Seq*>(sent_ + parts_.seqs);
  arguments.weights = device_.weights();
  arguments.arena = arena_;
  for (uint32_t g = 0; g < n_groups_; ++g) arguments.pools[g] = step.pools[g];
  arguments.logits = reinterpret_cast<float*>(logits_);
  arguments.logits_stride = static_cast<int64_t>(logits_stride_);
  arguments.n_rows = step.n_rows, arguments.n_outputs = step.n_outputs;
  arguments.n_splits = static_cast<uint32_t>(gc_cuda_ranges(int64_t{last} + 1));
  arguments.long_context = (step.flags & GC_STEP_LONG_CONTEXT) != 0;

  const gc_cuda_image& image = device_.image();
  const bool one = step.n_rows == 1;
  const auto* launches = device_.table<gc_cuda_launch>(one ? image.one : image.many);
  const Vec<At>& operands = one ? one_ : many_;
  int error = send(step);
  for (uint32_t i = 0; i < operands.size() && error == 0; ++i)
    error = launch(launches[i], operands[i], step, arguments.n_splits, arguments);
  if (error == 0 && step.n_outputs != 0)
    error = device_.driver().read_async(logits, address(logits_), step.n_outputs * stride * sizeof(float),
                                        stream_);
  const int waited = device_.driver().stream_wait(stream_);  // the copies' memory is free again
  device_.note(error);
  device_.note(waited);
  return device_.take_failure() ? kErrSystem : kOk;
}

}  // namespace

Status CudaDevice::begin(const SessionOptions& options, Allocator allocator, DeviceSession** session,
                         Span<char> message) {
  void* at = allocator.get(sizeof(CudaSession), alignof(CudaSession));
  if (at == nullptr) return kErrMemory;
  auto* made = new (gcrt_placement(), at) CudaSession(*this, allocator);
  use();
  const Status s = made->open(options, gc_cuda_program, message);
  if (s == kOk)
    *session = made;
  else
    made->close();
  return s;
}

}  // namespace gcrt::cuda
