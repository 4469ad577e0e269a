// strftime in the C locale, in a proleptic Gregorian calendar; no libc, whose version follows the host's locale.
#include "runtime/text/jinja/machine.h"

namespace gcrt {
namespace jinja {
namespace {

constexpr const char* kDays[] = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                 "Thursday", "Friday", "Saturday"};
constexpr const char* kMonths[] = {"January", "February", "March",     "April",   "May",      "June",
                                   "July",    "August",   "September", "October", "November", "December"};

struct Date {
  int64_t year;
  int month, day, weekday, yearday;  // month and day from 1, Sunday 0, yearday from 0
  int hour, minute, second;
};

bool leap(int64_t y) { return (y % 4 == 0 && y % 100 != 0) || y % 400 == 0; }

Date date_of(int64_t seconds) {
  int64_t days = seconds / 86400, rest = seconds % 86400;
  if (rest < 0) rest += 86400, --days;
  Date d{};
  d.hour = static_cast<int>(rest / 3600), d.minute = static_cast<int>(rest / 60 % 60);
  d.second = static_cast<int>(rest % 60);
  d.weekday = static_cast<int>(((days % 7) + 11) % 7);  // 1970 began on a Thursday
  // Days since 1 March of the year 0, in eras of 400 years.
  const int64_t z = days + 719468, era = (z >= 0 ? z : z - 146096) / 146097;
  const int64_t of_era = z - era * 146097;
  const int64_t year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
  const int64_t of_year = of_era - (365 * year + year / 4 - year / 100), mp = (5 * of_year + 2) / 153;
  d.day = static_cast<int>(of_year - (153 * mp + 2) / 5 + 1);
  d.month = static_cast<int>(mp < 10 ? mp + 3 : mp - 9);
  d.year = year + era * 400 + (d.month <= 2);
  static constexpr int kBefore[] = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334};
  d.yearday = kBefore[d.month - 1] + d.day - 1 + (d.month > 2 && leap(d.year));
  return d;
}

// Weeks of ISO 8601: the one with the year's first Thursday is 1.
int iso_week(const Date& d, int64_t* year) {
  const int monday_first = (d.weekday + 6) % 7;
  int week = (d.yearday - monday_first + 10) / 7;
  *year = d.year;
  const auto weeks_in = [](int64_t y) {
    const auto p = [](int64_t v) { return (v + v / 4 - v / 100 + v / 400) % 7; };
    return p(y) == 4 || p(y - 1) == 3 ? 53 : 52;
  };
  if (week < 1) return week = weeks_in(*year = d.year - 1);
  if (week > weeks_in(d.year)) *year = d.year + 1, week = 1;
  return week;
}

class Fields {
 public:
  Fields(Build& out, const Date& d, int64_t seconds) : out_(out), d_(d), seconds_(seconds) {}

  // Flags as glibc has them: - no padding, _ spaces, 0 zeros, ^ upper case.
  bool field(char c, char flag) {
    const int hour12 = d_.hour % 12 ? d_.hour % 12 : 12;
    int64_t year = 0;
    switch (c) {
      case 'Y':
        return number(d_.year, 1, '0', flag);
      case 'C':
        return number(d_.year / 100, 2, '0', flag);
      case 'y':
        return number(d_.year % 100, 2, '0', flag);
      case 'm':
        return number(d_.month, 2, '0', flag);
      case 'd':
        return number(d_.day, 2, '0', flag);
      case 'e':
        return number(d_.day, 2, ' ', flag);
      case 'H':
        return number(d_.hour, 2, '0', flag);
      case 'k':
        return number(d_.hour, 2, ' ', flag);
      case 'I':
        return number(hour12, 2, '0', flag);
      case 'l':
        return number(hour12, 2, ' ', flag);
      case 'M':
        return number(d_.minute, 2, '0', flag);
      case 'S':
        return number(d_.second, 2, '0', flag);
      case 'f':
        return out_.put("000000");
      case 'j':
        return number(d_.yearday + 1, 3, '0', flag);
      case 'w':
        return number(d_.weekday, 1, '0', flag);
      case 'u':
        return number(d_.weekday ? d_.weekday : 7, 1, '0', flag);
      case 'U':
        return number((d_.yearday + 7 - d_.weekday) / 7, 2, '0', flag);
      case 'W':
        return number((d_.yearday + 7 - (d_.weekday + 6) % 7) / 7, 2, '0', flag);
      case 'V':
        return number(iso_week(d_, &year), 2, '0', flag);
      case 'G':
        return iso_week(d_, &year), number(year, 1, '0', flag);
      case 's':
        return number(seconds_, 1, '0', flag);
      case 'a':
        return word(kDays[d_.weekday], 3, flag);
      case 'A':
        return word(kDays[d_.weekday], 99, flag);
      case 'b':
      case 'h':
        return word(kMonths[d_.month - 1], 3, flag);
      case 'B':
        return word(kMonths[d_.month - 1], 99, flag);
      case 'p':
        return out_.put(d_.hour < 12 ? "AM" : "PM");
      case 'P':
        return out_.put(d_.hour < 12 ? "am" : "pm");
      case 'n':
        return out_.put("\n");
      case 't':
        return out_.put("\t");
      case '%':
        return out_.put("%");
      case 'z':
      case 'Z':
        return true;  // the time has no zone
      case 'F':
        return all("Y-m-d");
      case 'T':
      case 'X':
        return all("H:M:S");
      case 'R':
        return all("H:M");
      case 'D':
      case 'x':
        return all("m/d/y");
      case 'r':
        return all("I:M:S p");
      case 'c':
        return all("a b e H:M:S Y");
      default:
        return false;
    }
  }

 private:
  bool number(int64_t v, int width, char fill, char flag) {
    if (flag == '-') width = 1;
    if (flag == '_') fill = ' ';
    if (flag == '0') fill = '0';
    int digits = v < 0;
    for (int64_t r = v; r || digits == (v < 0); r /= 10) ++digits;
    for (; digits < width; --width)
      if (!out_.put_char(fill)) return false;
    return out_.put_int(v);
  }
  bool word(const char* w, size_t n, char flag) {
    for (size_t i = 0; w[i] && i < n; ++i)
      if (!out_.put_char(flag == '^' && w[i] >= 'a' ? static_cast<char>(w[i] - 32) : w[i])) return false;
    return true;
  }
  bool all(const char* fields) {
    for (; *fields; ++fields) {
      const bool letter = (*fields | 32) >= 'a' && (*fields | 32) <= 'z';
      if (!(letter ? field(*fields, 0) : out_.put_char(*fields))) return false;
    }
    return true;
  }

  Build& out_;
  const Date& d_;
  int64_t seconds_;
};

}  // namespace

bool format_time(Machine& m, Text format, int64_t seconds, Build& out) {
  constexpr int64_t kYear9999 = 253402300799, kYear1 = -62135596800;
  if (seconds > kYear9999 || seconds < kYear1) return m.fail("year is out of range");
  const Date date = date_of(seconds);
  Fields w(out, date, seconds);
  for (size_t i = 0; i < format.len; ++i) {
    if (format.ptr[i] != '%' || i + 1 == format.len) {
      if (!out.put(format.sub(i, i + 1))) return false;
      continue;
    }
    char c = format.ptr[++i], flag = 0;
    if ((c == '-' || c == '_' || c == '0' || c == '^') && i + 1 < format.len) flag = c, c = format.ptr[++i];
    if (!w.field(c, flag) && !m.failed) return m.fail("strftime: the directive '%", c, "' is not supported");
    if (m.failed) return false;
  }
  return true;
}

}  // namespace jinja
}  // namespace gcrt
