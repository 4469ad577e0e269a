#include "runtime/apps/cli/kl_base.h"

#include <fcntl.h>
#include <math.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace gcrt {
namespace {

constexpr char kMagic[9] = "_logits_";
constexpr float kNats = 16;  // below the likeliest, that steps are spent on

// The two floats in front of a row's steps.
struct RowHead {
  float scale, least;
};
RowHead head_of(const uint16_t* row) {
  RowHead h;
  memcpy(&h, row, sizeof h);
  return h;
}

void save_row(const float* logits, uint32_t n, float most, float least, double log_sum, uint16_t* row) {
  least = max_of(least, most - kNats);
  const RowHead h = {(most - least) / 65535, static_cast<float>(least - most - log_sum)};
  memcpy(row, &h, sizeof h);
  uint16_t* q = row + 4;
  const float inverse = h.scale > 0 ? 1 / h.scale : 0;
  for (uint32_t i = 0; i < n; ++i)
    q[i] =
        logits[i] > least ? static_cast<uint16_t>(min_of(lrintf((logits[i] - least) * inverse), 65535L)) : 0;
  if (n % 2 != 0) q[n] = 0;
}

void compare_row(const float* logits, uint32_t n, float most, double log_sum, int32_t next,
                 const uint16_t* row, Score* s) {
  const RowHead h = head_of(row);
  const uint16_t* q = row + 4;
  const double shift = static_cast<double>(most) + log_sum;
  uint32_t base_best = 0, best = 0;
  for (uint32_t i = 0; i < n; ++i) {
    if (q[i] > q[base_best]) base_best = i;
    if (logits[i] > logits[best]) best = i;
    const float base = h.scale * q[i] + h.least;
    if (base > -kNats) s->kl += exp(static_cast<double>(base)) * (base - (logits[i] - shift));
  }
  s->has_base_nll = q[next] != 0;
  s->base_nll = -static_cast<double>(h.scale * q[next] + h.least);
  s->same_best = best == base_best || q[best] == q[base_best];
}

}  // namespace

KlBase::Head KlBase::make_head(uint32_t n_ctx, uint32_t n_vocab, uint32_t n_chunk) {
  Head h = {};
  memcpy(h.magic, kMagic, sizeof h.magic);
  h.n_ctx = static_cast<int32_t>(n_ctx);
  h.n_vocab = static_cast<int32_t>(n_vocab);
  h.n_chunk = static_cast<int32_t>(n_chunk);
  return h;
}

KlBase::~KlBase() {
  if (bytes_) munmap(const_cast<uint8_t*>(bytes_), size_);
}

bool KlBase::open(App& app, const char* path, uint32_t n_vocab) {
  const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
  struct stat status = {};
  const bool opened = fd >= 0 && fstat(fd, &status) == 0;
  void* map = MAP_FAILED;
  if (opened && status.st_size > 0)
    map = mmap(nullptr, static_cast<size_t>(status.st_size), PROT_READ, MAP_PRIVATE, fd, 0);
  const int error = errno;
  if (fd >= 0) close(fd);
  auto wrong = [&](const auto&... parts) {
    app.fail("'", path, "': ", parts...);
    return false;
  };
  if (map == MAP_FAILED) return wrong(opened && status.st_size == 0 ? "is empty" : strerrordesc_np(error));
  bytes_ = static_cast<const uint8_t*>(map);
  size_ = static_cast<uint64_t>(status.st_size);
  if (size_ < sizeof(Head) || memcmp(head().magic, kMagic, sizeof head().magic) != 0)
    return wrong("is no base of --kl-divergence");
  if (head().n_vocab != static_cast<int64_t>(n_vocab))
    return wrong("is of a model with ", head().n_vocab, " tokens; this one has ", n_vocab);
  const int64_t n_ctx = head().n_ctx, n_chunk = head().n_chunk;
  if (n_ctx < 4 || n_ctx > INT32_MAX / 4 || n_chunk < 1) return wrong("is damaged");
  const uint64_t row = 2 * row_words(n_vocab),
                 per_chunk = 4 * static_cast<uint64_t>(n_ctx) + row * scored(static_cast<uint32_t>(n_ctx));
  if ((size_ - sizeof(Head)) / per_chunk < static_cast<uint64_t>(n_chunk)) return wrong("is cut off");
  for (int32_t id : tokens())
    if (id < 0 || static_cast<uint32_t>(id) >= n_vocab) return wrong("is damaged");
  return true;
}

Span<const int32_t> KlBase::tokens() const {
  return {reinterpret_cast<const int32_t*>(bytes_ + sizeof(Head)),
          static_cast<size_t>(head().n_ctx) * static_cast<size_t>(head().n_chunk)};
}

const uint16_t* KlBase::row(uint32_t chunk, uint32_t i) const {
  const uint64_t rows_at = sizeof(Head) + 4 * tokens().size();
  const uint64_t at = uint64_t{chunk} * scored(static_cast<uint32_t>(head().n_ctx)) + i;
  return reinterpret_cast<const uint16_t*>(bytes_ + rows_at +
                                           2 * at * row_words(static_cast<uint32_t>(head().n_vocab)));
}

Score score_position(const float* logits, uint32_t n_vocab, int32_t next, uint16_t* save,
                     const uint16_t* base) {
  float most = -INFINITY, least = INFINITY;
  for (uint32_t i = 0; i < n_vocab; ++i) {
    most = max_of(most, logits[i]);
    least = min_of(least, logits[i]);
  }
  double sum = 0;
  for (uint32_t i = 0; i < n_vocab; ++i) sum += static_cast<double>(expf(logits[i] - most));
  const double log_sum = log(sum);
  Score s;
  s.nll = static_cast<double>(most) + log_sum - static_cast<double>(logits[next]);
  if (save) save_row(logits, n_vocab, most, least, log_sum, save);
  if (base) compare_row(logits, n_vocab, most, log_sum, next, base, &s);
  return s;
}

}  // namespace gcrt
