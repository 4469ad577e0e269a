// Embeddings and scores of texts.
#include "runtime/core/embedding.h"

#include "runtime/api/handles.h"
#include "runtime/text/pair.h"

using namespace gcrt;

namespace {

static_assert(int{GCM_POOLING_USUAL} == int{GC_POOLINGS});

template <class... Parts>
gcm_status refuse(gcm_session* s, Status status, const Parts&... parts) {
  return fail(s->error, status, parts...);
}

}  // namespace

extern "C" {

gcm_status gcm_embed(gcm_session* s, const int32_t* ids, size_t n, int pooling, int normalize, float* out,
                     size_t capacity, size_t* n_floats) {
  if (s == nullptr) return GCM_ERR_ARGUMENT;
  s->n_logits = 0;
  if (n_floats != nullptr) *n_floats = 0;
  const gc_model& facts = *s->model->model.facts;
  const gc_program& program = *s->session.model().program;
  if (!gives_embeddings(program)) return refuse(s, kErrUnsupported, "the model is no encoder: it generates");
  const uint32_t most = s->session.options().n_ubatch;
  if (n == 0 || ids == nullptr || n > most)
    return refuse(s, kErrArgument, "a text has 1 to ", most, " tokens here, and this one ", n);
  for (size_t i = 0; i < n; ++i)
    if (ids[i] < 0 || static_cast<uint32_t>(ids[i]) >= program.n_vocab)
      return refuse(s, kErrArgument, "token ", ids[i], ": the model has ", program.n_vocab, " tokens");
  if (pooling < 0 || pooling > GCM_POOLING_USUAL)
    return refuse(s, kErrArgument, "there is no pooling ", pooling);
  const auto how = pooling == GCM_POOLING_USUAL ? facts.pooling : static_cast<uint32_t>(pooling);
  if (facts.scores != 0 && how != facts.pooling)
    return refuse(s, kErrUnsupported, "the model gives scores, of the token that it was made for");
  const size_t floats = size_t{embeddings_of(how, static_cast<uint32_t>(n))} * program.n_output;
  if (n_floats != nullptr) *n_floats = floats;
  if (out == nullptr || capacity < floats)
    return refuse(s, kErrFull, floats, " floats don't fit the ", out != nullptr ? capacity : 0, " given");
  const Status status = embed(s->session, {ids, n}, how, normalize != 0 && facts.scores == 0, s->logits, out);
  if (status == kErrFull)
    return refuse(s, kErrFull, n, " tokens don't fit a context of ", s->session.options().n_ctx);
  return status == kOk ? GCM_OK : refuse(s, status, gcm_status_text(status));
}

gcm_status gcm_tokenize_pair(const gcm_model* m, const char* query, size_t query_bytes, const char* document,
                             size_t document_bytes, int32_t* ids, size_t capacity, size_t* n_ids) {
  if (m == nullptr || (query == nullptr && query_bytes != 0) || (document == nullptr && document_bytes != 0))
    return GCM_ERR_ARGUMENT;
  Vec<int32_t> all(m->memory);
  const Status s = encode_pair(m->tokenizer, Str(query, query_bytes), Str(document, document_bytes), all);
  return s == kOk ? give_all(all, ids, capacity, n_ids) : static_cast<gcm_status>(s);
}

}  // extern "C"
