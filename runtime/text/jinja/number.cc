#include "runtime/text/jinja/number.h"

#include <math.h>
#include <string.h>

namespace gcrt {
namespace jinja {
namespace {

// A non-negative integer below 2^5120: enough for 700 digits times the powers of ten of any double.
class Big {
 public:
  explicit Big(uint64_t v = 0) {
    while (v) words_[n_++] = static_cast<uint32_t>(v), v >>= 32;
  }
  void mul(uint32_t by, uint32_t add = 0) {
    uint64_t carry = add;
    for (int i = 0; i < n_; ++i) {
      carry += static_cast<uint64_t>(words_[i]) * by;
      words_[i] = static_cast<uint32_t>(carry);
      carry >>= 32;
    }
    if (carry && n_ < kWords) words_[n_++] = static_cast<uint32_t>(carry);
  }
  void mul_pow10(int e) {
    for (; e >= 9; e -= 9) mul(1000000000u);
    for (; e > 0; --e) mul(10);
  }
  void shift(int bits) {
    const int whole = bits / 32, part = bits % 32;
    if (!n_ || n_ + whole + 1 > kWords) return;
    for (int i = n_ - 1; i >= 0; --i) words_[i + whole] = words_[i];
    for (int i = 0; i < whole; ++i) words_[i] = 0;
    n_ += whole;
    if (part) mul(1u << part);
  }
  int bits() const { return n_ ? 32 * n_ - __builtin_clz(words_[n_ - 1]) : 0; }
  bool zero() const { return n_ == 0; }
  int compare(const Big& o) const {
    if (n_ != o.n_) return n_ < o.n_ ? -1 : 1;
    for (int i = n_ - 1; i >= 0; --i)
      if (words_[i] != o.words_[i]) return words_[i] < o.words_[i] ? -1 : 1;
    return 0;
  }
  // this -= o; this >= o.
  void sub(const Big& o) {
    int64_t borrow = 0;
    for (int i = 0; i < n_; ++i) {
      borrow += static_cast<int64_t>(words_[i]) - (i < o.n_ ? o.words_[i] : 0);
      words_[i] = static_cast<uint32_t>(borrow);
      borrow >>= 32;
    }
    while (n_ && !words_[n_ - 1]) --n_;
  }

 private:
  static constexpr int kWords = 160;
  int n_ = 0;
  uint32_t words_[kWords];
};

constexpr double kPow10[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                             1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
constexpr int kMaxDigits = 700;

// v = 0.d1d2... * 10^*point with `n` digits cut (not rounded); returns how the rest compares with half a unit of the
// last digit: -1, 0, 1.
int cut_digits(double v, int n, char* digits, int* point) {
  uint64_t bits;
  memcpy(&bits, &v, 8);
  int e = static_cast<int>(bits >> 52 & 2047);
  uint64_t m = bits & ((uint64_t{1} << 52) - 1);
  if (e)
    m |= uint64_t{1} << 52;
  else
    e = 1;
  e -= 1075;
  Big num(m), den(1);
  e > 0 ? num.shift(e) : den.shift(-e);
  int k = static_cast<int>(floor(log10(v))) + 1;
  k > 0 ? den.mul_pow10(k) : num.mul_pow10(-k);
  while (num.compare(den) >= 0) den.mul(10), ++k;
  for (;;) {
    Big ten = num;
    ten.mul(10);
    if (ten.compare(den) >= 0) break;
    num = ten, --k;
  }
  for (int i = 0; i < n; ++i) {
    num.mul(10);
    digits[i] = '0';
    while (num.compare(den) >= 0) num.sub(den), ++digits[i];
  }
  *point = k;
  num.mul(2);
  return num.compare(den);
}

// Adds one unit to the last of n digits; "999" becomes "100" with the point moved.
void round_up(char* digits, int n, int* point) {
  int i = n - 1;
  while (i >= 0 && digits[i] == '9') digits[i--] = '0';
  if (i >= 0) {
    ++digits[i];
    return;
  }
  digits[0] = '1';
  ++*point;
}

size_t put_word(const char* word, char* out) {
  size_t n = strlen(word);
  memcpy(out, word, n);
  return n;
}

// The digits of the shortest decimal that reads back to v > 0; returns their number.
int shortest(double v, char* digits, int* point) {
  // Decimals of at most 15 digits are told apart by doubles, so the first that gives v back is the one.
  if (v >= 1e-5 && v < 1e15) {
    for (int k = 0; k <= 19; ++k) {
      const double scaled = v * kPow10[k];
      if (scaled >= 1e15) break;
      const double whole = rint(scaled);
      if (whole < 1 || whole / kPow10[k] != v) continue;
      uint64_t m = static_cast<uint64_t>(whole);
      char reversed[20];
      int n = 0;
      for (; m; m /= 10) reversed[n++] = static_cast<char>('0' + m % 10);
      for (int i = 0; i < n; ++i) digits[i] = reversed[n - 1 - i];
      *point = n - k;
      while (n > 1 && digits[n - 1] == '0') --n;
      return n;
    }
  }
  for (int n = 1; n < 17; ++n) {
    float_digits(v, n, digits, point);
    char text[40];
    size_t len = 0;
    text[len++] = '.';
    memcpy(text + len, digits, static_cast<size_t>(n));
    len += static_cast<size_t>(n);
    text[len++] = 'e';
    if (*point < 0) text[len++] = '-';
    int p = *point < 0 ? -*point : *point;
    text[len++] = static_cast<char>('0' + p / 100), text[len++] = static_cast<char>('0' + p / 10 % 10);
    text[len++] = static_cast<char>('0' + p % 10);
    char whole[41];
    whole[0] = '0';
    memcpy(whole + 1, text, len);
    double back = 0;
    if (parse_float({whole, len + 1}, &back) && back == v) {
      while (n > 1 && digits[n - 1] == '0') --n;
      return n;
    }
  }
  float_digits(v, 17, digits, point);
  return 17;
}

// num / den, correctly rounded to a double.
double divide(Big num, Big den) {
  if (num.zero()) return 0;
  // A quotient of 64 or 65 bits, the last of them sticky.
  const int shift = 64 - (num.bits() - den.bits());
  shift > 0 ? num.shift(shift) : den.shift(-shift);
  int e = -shift;
  Big den2 = den;
  den2.shift(64);
  uint64_t q = 0;
  int q_bits = 0;
  // Long division from the top bit down; q keeps the first 64 bits.
  if (num.compare(den2) < 0) {
    num.shift(1);
    --e;
  }
  for (; q_bits < 64; ++q_bits) {
    q <<= 1;
    if (num.compare(den2) >= 0) num.sub(den2), q |= 1;
    num.shift(1);
  }
  const bool sticky = !num.zero();
  e += 1;  // 65 bits of integer part, 64 kept
  // q * 2^e, 2^63 <= q < 2^64. Bits below the double's last place:
  int drop = 11;
  if (e + drop < -1074) drop = -1074 - e;
  if (drop > 64) return 0;
  uint64_t kept = drop == 64 ? 0 : q >> drop;
  const uint64_t rest = drop == 64 ? q : q & ((uint64_t{1} << drop) - 1);
  const uint64_t half = uint64_t{1} << (drop - 1);
  if (rest > half || (rest == half && (sticky || (kept & 1)))) ++kept;
  return ldexp(static_cast<double>(kept), e + drop);
}

}  // namespace

void float_digits(double v, int n, char* digits, int* point) {
  if (v < 0) v = -v;
  if (v == 0) {
    memset(digits, '0', static_cast<size_t>(n));
    *point = 1;
    return;
  }
  const int rest = cut_digits(v, n, digits, point);
  if (rest > 0 || (rest == 0 && (digits[n - 1] & 1))) round_up(digits, n, point);
}

size_t float_repr(double v, char (&out)[40]) {
  if (isnan(v)) return put_word("nan", out);
  size_t len = 0;
  if (signbit(v)) out[len++] = '-', v = -v;
  if (isinf(v)) return len + put_word("inf", out + len);
  char digits[20] = {'0'};
  int point = 1, n = 1;
  if (v != 0) n = shortest(v, digits, &point);
  if (point > 16 || point < -3) {
    out[len++] = digits[0];
    if (n > 1) out[len++] = '.';
    for (int i = 1; i < n; ++i) out[len++] = digits[i];
    int e = point - 1;
    out[len++] = 'e';
    out[len++] = e < 0 ? '-' : '+';
    if (e < 0) e = -e;
    if (e >= 100) out[len++] = static_cast<char>('0' + e / 100);
    out[len++] = static_cast<char>('0' + e / 10 % 10);
    out[len++] = static_cast<char>('0' + e % 10);
    return len;
  }
  if (point <= 0) {
    out[len++] = '0', out[len++] = '.';
    for (int i = point; i < 0; ++i) out[len++] = '0';
    for (int i = 0; i < n; ++i) out[len++] = digits[i];
    return len;
  }
  for (int i = 0; i < point; ++i) out[len++] = i < n ? digits[i] : '0';
  out[len++] = '.';
  if (n <= point) out[len++] = '0';
  for (int i = point; i < n; ++i) out[len++] = digits[i];
  return len;
}

size_t float_fixed(double v, int decimals, char (&out)[400]) {
  size_t len = 0;
  if (signbit(v)) out[len++] = '-', v = -v;
  char digits[400] = {'0'};
  int point = 1, n = 0;
  if (v != 0) {
    cut_digits(v, 0, digits, &point);
    n = point + decimals;  // digits of the result; with none the value is below one unit of the last place
    if (n < 0) {
      n = 0, point = 1;
    } else {
      const int before = point, rest = cut_digits(v, n, digits, &point);
      if (n == 0) {
        if (rest > 0)
          digits[n++] = '1', ++point;
        else
          point = 1;
      } else if (rest > 0 || (rest == 0 && (digits[n - 1] & 1))) {
        round_up(digits, n, &point);
        if (point != before) digits[n++] = '0';
      }
    }
  }
  if (point <= 0) out[len++] = '0';
  for (int i = 0; i < point; ++i) out[len++] = i < n ? digits[i] : '0';
  if (decimals) out[len++] = '.';
  for (int i = 0; i < decimals; ++i) {
    const int at = point + i;
    out[len++] = at >= 0 && at < n ? digits[at] : '0';
  }
  return len;
}

bool parse_float(Str s, double* v) {
  size_t at = 0;
  bool negative = false;
  if (at < s.size() && (s[at] == '-' || s[at] == '+')) negative = s[at++] == '-';
  Big num;
  uint64_t small = 0;
  int n = 0, exponent = 0;
  bool any = false, point = false;
  for (; at < s.size(); ++at) {
    if (s[at] == '.' && !point) {
      point = true;
      continue;
    }
    if (s[at] < '0' || s[at] > '9') break;
    any = true;
    const uint32_t d = static_cast<uint32_t>(s[at] - '0');
    if (n < kMaxDigits) {
      if (n || d) {
        num.zero() ? (void)(num = Big(d)) : num.mul(10, d);
        if (n < 19) small = small * 10 + d;
        ++n;
      }
      if (point) --exponent;
    } else if (!point) {
      ++exponent;
    }
  }
  if (!any) return false;
  if (at < s.size() && (s[at] == 'e' || s[at] == 'E')) {
    ++at;
    bool minus = false;
    if (at < s.size() && (s[at] == '-' || s[at] == '+')) minus = s[at++] == '-';
    if (at >= s.size()) return false;
    int e = 0;
    for (; at < s.size() && s[at] >= '0' && s[at] <= '9'; ++at)
      if (e < 100000) e = e * 10 + (s[at] - '0');
    exponent += minus ? -e : e;
  }
  if (at != s.size()) return false;
  double r = 0;
  if (n == 0) {
    r = 0;
  } else if (n <= 15 && exponent >= -22 && exponent <= 22) {
    r = static_cast<double>(small);
    r = exponent < 0 ? r / kPow10[-exponent] : r * kPow10[exponent];
  } else if (n + exponent > 310) {
    r = static_cast<double>(INFINITY);
  } else if (n + exponent < -330) {
    r = 0;
  } else {
    Big den(1);
    exponent > 0 ? num.mul_pow10(exponent) : den.mul_pow10(-exponent);
    r = divide(num, den);
  }
  *v = negative ? -r : r;
  return true;
}

}  // namespace jinja
}  // namespace gcrt
