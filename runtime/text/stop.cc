#include "runtime/text/stop.h"

namespace gcrt {

int32_t StopMatcher::child(int32_t node, uint8_t byte) const {
  int32_t c = nodes_[static_cast<size_t>(node)].first_child;
  while (c >= 0 && nodes_[static_cast<size_t>(c)].byte != byte) c = nodes_[static_cast<size_t>(c)].sibling;
  return c;
}

int32_t StopMatcher::step(int32_t node, uint8_t byte) const {
  for (;;) {
    int32_t c = child(node, byte);
    if (c >= 0) return c;
    if (node == 0) return 0;
    node = nodes_[static_cast<size_t>(node)].fail;
  }
}

Status StopMatcher::insert(Str stop, int32_t index) {
  int32_t at = 0;
  for (char ch : stop) {
    uint8_t byte = static_cast<uint8_t>(ch);
    int32_t next = child(at, byte);
    if (next < 0) {
      next = static_cast<int32_t>(nodes_.size());
      Node& parent = nodes_[static_cast<size_t>(at)];
      Node fresh{-1, parent.first_child, 0, -1, 0, parent.depth + 1, byte};
      parent.first_child = next;
      if (!nodes_.push(fresh)) return kErrMemory;
    }
    at = next;
  }
  Node& end = nodes_[static_cast<size_t>(at)];
  if (end.stop < 0) {
    end.stop = index;
    end.stop_bytes = static_cast<uint32_t>(stop.size());
  }
  return kOk;
}

// Breadth first, so that the suffix of a node, which is shorter, is done before it.
Status StopMatcher::link() {
  queue_.clear();
  if (!queue_.push(0)) return kErrMemory;
  for (size_t i = 0; i < queue_.size(); ++i) {
    int32_t parent = queue_[i];
    for (int32_t c = nodes_[static_cast<size_t>(parent)].first_child; c >= 0;
         c = nodes_[static_cast<size_t>(c)].sibling) {
      Node& n = nodes_[static_cast<size_t>(c)];
      n.fail = parent == 0 ? 0 : step(nodes_[static_cast<size_t>(parent)].fail, n.byte);
      const Node& suffix = nodes_[static_cast<size_t>(n.fail)];
      if (n.stop < 0 && suffix.stop >= 0) {
        n.stop = suffix.stop;
        n.stop_bytes = suffix.stop_bytes;
      }
      if (!queue_.push(c)) return kErrMemory;
    }
  }
  return kOk;
}

Status StopMatcher::init(Span<const Str> stops) {
  nodes_.clear();
  reset();
  uint64_t bytes = 0;
  for (Str s : stops) {
    if (s.empty()) return kErrInput;
    bytes += s.size();
  }
  if (bytes > INT32_MAX / 2) return kErrArgument;
  if (!nodes_.push({-1, -1, 0, -1, 0, 0, 0})) return kErrMemory;
  Status s = kOk;
  for (size_t i = 0; i < stops.size() && s == kOk; ++i) s = insert(stops[i], static_cast<int32_t>(i));
  if (s == kOk) s = link();
  if (s != kOk) nodes_.clear();  // half a trie is none: text passes through
  return s;
}

void StopMatcher::reset() {
  state_ = 0;
  found_ = -1;
  held_.clear();
}

Status StopMatcher::push(Str text, Vec<char>& out) {
  if (found_ >= 0) return kOk;
  if (nodes_.size() <= 1) return append(out, text) ? kOk : kErrMemory;
  for (char ch : text) {
    state_ = step(state_, static_cast<uint8_t>(ch));
    const Node& n = nodes_[static_cast<size_t>(state_)];
    if (!held_.push(ch)) return kErrMemory;
    // The held bytes are the path to the state, after what cannot belong to it any more.
    size_t keep = n.stop >= 0 ? n.stop_bytes : n.depth;
    size_t release = held_.size() - keep;
    if (release) {
      if (!append(out, str(held_).sub(0, release))) return kErrMemory;
      memmove(held_.data(), held_.data() + release, keep);
      held_.truncate(keep);
    }
    if (n.stop >= 0) {
      found_ = n.stop;
      held_.clear();
      return kOk;
    }
  }
  return kOk;
}

Status StopMatcher::finish(Vec<char>& out) {
  if (!append(out, str(held_))) return kErrMemory;
  held_.clear();
  state_ = 0;
  return kOk;
}

}  // namespace gcrt
