#include "runtime/generate/testdata/fake_model.h"

#include <math.h>
#include <string.h>
#include <time.h>

#include <string>
#include <vector>

#include "runtime/abi/code_id.h"
#include "runtime/abi/image.h"
#include "runtime/abi/peak.h"
#include "runtime/core/cpu_features.h"
#include "runtime/generate/testdata/fake_template.h"
#include "runtime/text/frozen.h"

namespace fake {
namespace {

namespace fz = gcrt::frozen;

int32_t next_of(int32_t token) {
  if (token == kHello) return kSpaceWor;
  if (token == kSpaceWor) return kLd;
  if (token == kLd || token == byte('z') || token == byte('\xA9')) return kEos;
  if (token == byte('0') || token == byte('S')) return token;
  if (token == byte('E')) return byte('\xC3');
  if (token == byte('\xC3')) return byte('\xA9');
  return (token + 1) % kSum;
}

// A block is far larger than its 64 floats, so that contexts of this model can be too large for a machine.
constexpr uint64_t kBlockBytes = 64 << 10;

float* cell(const gc_step* step, const gc_table& table, int32_t pos) {
  return reinterpret_cast<float*>(step->pools[0] + table.blocks[pos / 64] * kBlockBytes) + pos % 64;
}

void put_logits(const gc_step* step, const gc_row& row, float* logits) {
  if (row.token == byte('S')) {
    const timespec pause = {0, 2000000};
    nanosleep(&pause, nullptr);
  }
  const gc_table& table = step->seqs[row.seq].tables[0];
  float sum = 0;
  for (int32_t p = 0; p <= row.pos; ++p) sum += *cell(step, table, p);
  for (int32_t i = 0; i < kVocab; ++i) logits[i] = row.token == byte('N') ? NAN : 0;
  if (row.token == byte('N')) return;
  const int32_t best = next_of(row.token);
  logits[(row.token + 2) % kSum] = 9;
  logits[best] = 10;
  logits[kSum] = -1 - sum;
}

// All logits where they are wanted, else a choice of them in two pieces.
void put_output(const gc_step* step, const gc_row& row, uint32_t output) {
  const gc_sink& sink = *step->sink;
  if (sink.kind == GC_SINK_LOGITS) return put_logits(step, row, sink.logits + output * sink.stride);
  float logits[kVocab];
  put_logits(step, row, logits);
  constexpr uint32_t kFirst = 160;
  sink.choice->take(sink.choice->context, 0, output, 0, kFirst, logits);
  sink.choice->take(sink.choice->context, 0, output, kFirst, kVocab - kFirst, logits + kFirst);
}

int32_t entry(const gc_step* step, uint32_t worker) {
  if (step->sink->kind != GC_SINK_LOGITS && step->sink->choice == nullptr) return GC_ERR_UNSUPPORTED;
  if (worker == 0) {
    uint32_t output = 0;
    for (uint32_t r = 0; r < step->n_rows; ++r) {
      const gc_row& row = step->rows[r];
      const gc_table& table = step->seqs[row.seq].tables[0];
      *cell(step, table, row.pos) = static_cast<float>(row.token);
      if (row.output) put_output(step, row, output++);
    }
  }
  step->barrier(step->barrier_context, worker);
  return GC_OK;  // sees no abort: the session does, before the next step
}

// ---- Tokenizer ----

struct Piece {
  std::string text;
  uint8_t attr;
};

std::vector<Piece> pieces() {
  std::vector<Piece> all = {{"<unk>", fz::kUnknown}, {"<s>", fz::kControl}, {"</s>", fz::kControl}};
  const char* hex = "0123456789ABCDEF";
  for (int b = 0; b < 256; ++b)
    all.push_back({std::string("<0x") + hex[b >> 4] + hex[b & 15] + '>', fz::kByte});
  all.push_back({"Hello", fz::kNormal});
  all.push_back({" wor", fz::kNormal});
  all.push_back({"ld!", fz::kNormal});
  while (all.size() < kVocab) all.push_back({"<unused" + std::to_string(all.size()) + ">", fz::kUnused});
  return all;
}

class Blob {
 public:
  Blob() { bytes_.resize(sizeof(fz::Header) + kSections * sizeof(fz::Section)); }
  template <class T>
  void add(uint32_t tag, const std::vector<T>& values) {
    bytes_.resize((bytes_.size() + 63) / 64 * 64);
    sections_.push_back({tag, 0, bytes_.size(), values.size() * sizeof(T)});
    const uint8_t* data = reinterpret_cast<const uint8_t*>(values.data());
    bytes_.insert(bytes_.end(), data, data + values.size() * sizeof(T));
  }
  std::vector<uint8_t> finish() {
    fz::Header h = {fz::kMagic,
                    fz::kVersion,
                    bytes_.size(),
                    fz::Kind::kSpm,
                    kVocab,
                    static_cast<uint32_t>(sections_.size()),
                    {}};
    memcpy(bytes_.data(), &h, sizeof h);
    memcpy(bytes_.data() + sizeof h, sections_.data(), sections_.size() * sizeof(fz::Section));
    return bytes_;
  }

 private:
  static constexpr size_t kSections = 9;
  std::vector<uint8_t> bytes_;
  std::vector<fz::Section> sections_;
};

// "<s>" and "</s>".
std::vector<fz::TrieNode> special_trie() {
  return {{1, 1, 0, 0, -1, -1},   {2, 2, '<', 0, -1, -1},   {4, 1, '/', 0, -1, -1},  {5, 1, 's', 0, -1, -1},
          {6, 1, 's', 0, -1, -1}, {7, 0, '>', 0, kBos, -1}, {7, 0, '>', 0, kEos, -1}};
}

std::vector<uint8_t> make_blob() {
  const std::vector<Piece> all = pieces();
  std::vector<char> text;
  std::vector<uint32_t> offsets = {0}, slots(2 * kVocab);
  std::vector<uint8_t> attrs;
  std::vector<int32_t> bytes;
  fz::Meta meta = {};
  meta.flags = fz::kAddBos;
  meta.id_bits = 9;
  int32_t* ids[] = {&meta.bos,     &meta.eos,     &meta.eot,     &meta.eom,     &meta.unk,     &meta.sep,
                    &meta.pad,     &meta.cls,     &meta.mask,    &meta.newline, &meta.fim_pre, &meta.fim_suf,
                    &meta.fim_mid, &meta.fim_pad, &meta.fim_rep, &meta.fim_sep};
  for (int32_t* id : ids) *id = -1;
  meta.bos = kBos, meta.eos = kEos, meta.unk = 0;
  meta.fim_pre = kFimPre, meta.fim_suf = kFimSuf, meta.fim_mid = kFimMid;
  meta.n_distinct = kVocab;
  meta.max_special_bytes = 4;
  for (size_t i = 0; i < all.size(); ++i) {
    const std::string& piece = all[i].text;
    text.insert(text.end(), piece.begin(), piece.end());
    offsets.push_back(static_cast<uint32_t>(text.size()));
    attrs.push_back(all[i].attr);
    meta.max_piece_bytes = std::max<uint32_t>(meta.max_piece_bytes, static_cast<uint32_t>(piece.size()));
    const uint64_t h = fz::hash_bytes(piece.data(), piece.size());
    uint32_t at = fz::hash_slot(h, static_cast<uint32_t>(slots.size()));
    while (slots[at]) at = (at + 1) % static_cast<uint32_t>(slots.size());
    slots[at] = fz::hash_fingerprint(h, meta.id_bits) << meta.id_bits | static_cast<uint32_t>(i + 1);
  }
  for (int32_t b = 0; b < 256; ++b) bytes.push_back(kByte0 + b);
  Blob blob;
  blob.add(fz::kMeta, std::vector<fz::Meta>{meta});
  blob.add(fz::kText, text);
  blob.add(fz::kOffsets, offsets);
  blob.add(fz::kScores, std::vector<float>(kVocab));
  blob.add(fz::kAttrs, attrs);
  blob.add(fz::kHash, slots);
  blob.add(fz::kBytes, bytes);
  blob.add(fz::kEog, std::vector<int32_t>{kEos});
  blob.add(fz::kSpecial, special_trie());
  return blob.finish();
}

// ---- Programs, facts, weights ----

const gc_group kGroups[] = {{GC_STATE_KV_FULL, 0, {kBlockBytes, kBlockBytes, 0, 0}}};

void multiply(uint64_t n) {
  volatile float product = 1;
  for (uint64_t i = 0; i < n; ++i) product = product * 1.5f;
}

gc_program make_program(const char* isa) {
  gc_program p = {};
  p.abi_version = GC_ABI_VERSION;
  p.size = sizeof p;
  p.isa = isa;
  p.n_layer = 1;
  p.n_embd = 1;
  p.n_vocab = p.n_output = kVocab;
  p.n_groups = 1;
  p.groups = kGroups;
  p.arena.fixed = 64;
  p.weights_bytes = 1 << 20;
  p.max_position = 1 << 20;
  p.kv_type = GC_KV_F16;
  for (int k = 0; k < 3; ++k) p.entries[k][GC_KV_F16] = p.entries[k][GC_KV_F32] = entry;
  return p;
}

gc_model make_model() {
  static const std::vector<uint8_t> blob = make_blob();
  static const gc_format_use formats[] = {{"Q8_0", 2, 1000000, 1000016}};
  gc_model m = {};
  m.abi_version = GC_ABI_VERSION;
  m.size = sizeof m;
  m.name = "fake\x1b[2J \"model\"";  // names come from files of strangers
  m.architecture = "fake";
  m.license = "none";
  static const Template chat_template;
  static const std::vector<uint64_t> chat_program = chat_template.finish();
  m.chat_template = "made by hand";
  m.chat_template_origin = "test";
  m.chat_program = reinterpret_cast<const uint8_t*>(chat_program.data());
  m.chat_program_bytes = chat_template.bytes;
  m.chat_output = output_format();
  m.compiler = "test 1";
  m.n_layer = 1;
  m.n_embd = 1;
  m.n_vocab = kVocab;
  m.n_ctx_train = kContext;
  m.n_formats = 1;
  m.formats = formats;
  m.parameters = 1000000;
  m.touched_bytes = 1000000;
  m.tokenizer = blob.data();
  m.tokenizer_bytes = blob.size();
  m.temp = m.top_p = m.min_p = m.repeat_penalty = NAN;
  m.xtc_probability = m.xtc_threshold = m.mirostat_tau = m.mirostat_eta = NAN;
  m.top_k = m.repeat_last_n = m.mirostat = GC_UNSET;
  m.samplers = "";
  return m;
}

alignas(4096) uint8_t image[4096 + (1 << 20)];

gc_weights_marker make_marker() {
  gc_image_header h = {};
  memcpy(h.magic, GC_IMAGE_MAGIC, 8);
  h.version = GC_IMAGE_VERSION;
  h.section_count = 2;
  h.size = sizeof image;
  h.header_size = 4096;
  gc_image_section sections[2] = {};
  h.names_offset = sizeof h + sizeof sections;
  h.names_size = 6;
  for (uint32_t i = 0; i < 2; ++i) {
    sections[i].size = 1 << 19;
    sections[i].offset = i << 19;
    sections[i].checksum = gc_hash(image + 4096 + (i << 19), 1 << 19);
    sections[i].name_offset = 3 * i;
    sections[i].name_size = 3;
  }
  memcpy(image, &h, sizeof h);
  memcpy(image + sizeof h, sections, sizeof sections);
  memcpy(image + h.names_offset, "onetwo", 6);
  h.header_checksum = gc_hash(image, 4096);
  memcpy(image, &h, sizeof h);
  gc_weights_marker m = {};
  memcpy(m.magic, GC_MARKER_MAGIC, 8);
  m.version = GC_IMAGE_VERSION;
  m.location = GC_WEIGHTS_INSIDE;
  m.offset_from_marker = reinterpret_cast<uintptr_t>(image) - reinterpret_cast<uintptr_t>(&gc_weights);
  m.size = sizeof image;
  m.header_checksum = h.header_checksum;
#if !__has_feature(address_sanitizer)  // which forbids reading what lies between variables
  const auto at = static_cast<uint64_t>(reinterpret_cast<const unsigned char*>(&gc_weights) - __ehdr_start);
  m.program_checksum = gc_program_checksum(__ehdr_start, at, static_cast<uint64_t>(image - __ehdr_start), 0);
#endif
  m.code_bytes = 11, m.runtime_bytes = 22, m.system_bytes = 33, m.blob_bytes = 100000;
  return m;
}

const gc_program kOther = [] {
  // Of an instruction set that the machine may have or not; after the first it is never chosen by itself.
  static const uint8_t features[] = {gcrt::kCpu_amx_int8};
  gc_program p = make_program("other");
  p.cpu_features = features;
  p.n_cpu_features = 1;
  return p;
}();

}  // namespace

const gc_program kProgram = make_program("test");
const gc_program kChoosing = [] {
  gc_program p = make_program("test");
  p.sinks = 1u << GC_SINK_LOGITS | 1u << GC_SINK_ARGMAX | 1u << GC_SINK_TOPK;
  return p;
}();

void remove_template() { const_cast<gc_model&>(gc_the_model).chat_program = nullptr; }

void damage_weights() { image[4096 + (1 << 19) + 5] ^= 1; }

}  // namespace fake

extern "C" {
extern const gc_program* const gc_programs[] = {&fake::kProgram, &fake::kOther};
static const gc_peak kPeak = {"fmul", fake::multiply, 1, 500000};
extern const gc_peak* const gc_prompt_peaks[] = {&kPeak, &kPeak};
extern const uint32_t gc_n_programs = 2;
extern const uint64_t gc_code_ids[] = {1, 2};
extern const gc_model gc_the_model = fake::make_model();
extern const gc_weights_marker gc_weights = fake::make_marker();
}
