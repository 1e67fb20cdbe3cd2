package server

import "bytes"

const (
	dateLen    = len("Sun, 06 Nov 1994 08:49:37 GMT")
	secsPerDay = 24 * 60 * 60

	// What the four digits of a year can hold.
	minDate = -62167219200 // 0000-01-01 00:00:00
	maxDate = 253402300799 // 9999-12-31 23:59:59
)

const (
	dayNames   = "SunMonTueWedThuFriSat"
	monthNames = "JanFebMarAprMayJunJulAugSepOctNovDec"
)

// appendDate appends unixSec as an IMF-fixdate (RFC 9110 §5.6.7), always
// dateLen bytes. Times outside the years 0 to 9999 are clamped: a file may
// claim any time of modification.
func appendDate(b []byte, unixSec int64) []byte {
	unixSec = min(max(unixSec, minDate), maxDate)
	days, sec := unixSec/secsPerDay, unixSec%secsPerDay
	if sec < 0 {
		days, sec = days-1, sec+secsPerDay
	}
	y, m, d := civil(days)
	w := ((days+4)%7 + 7) % 7 // 1970-01-01 was a Thursday
	b = append(b, dayNames[3*w:3*w+3]...)
	b = append(b, ',', ' ')
	b = append2(b, d)
	b = append(b, ' ')
	b = append(b, monthNames[3*m-3:3*m]...)
	b = append(b, ' ')
	b = append2(append2(b, y/100), y%100)
	b = append(b, ' ')
	b = append2(b, sec/3600)
	b = append(b, ':')
	b = append2(b, sec/60%60)
	b = append(b, ':')
	b = append2(b, sec%60)
	return append(b, " GMT"...)
}

func append2(b []byte, v int64) []byte { return append(b, byte('0'+v/10), byte('0'+v%10)) }

// Days are counted in years that start in March, so that the leap day is the
// last and the lengths of the months before it follow a line: month m (0 =
// March) starts at day (153m+2)/5. An era is 400 years, 146097 days.
const (
	daysPerEra   = 146097
	epochFromEra = 719468 // days from 0000-03-01 to 1970-01-01
)

// civil returns the Gregorian date of a day counted from 1970-01-01.
func civil(days int64) (y, m, d int64) {
	days += epochFromEra
	era := days / daysPerEra
	if days < 0 {
		era = (days - daysPerEra + 1) / daysPerEra
	}
	day := days - era*daysPerEra
	year := (day - day/1460 + day/36524 - day/146096) / 365
	yday := day - (365*year + year/4 - year/100)
	month := (5*yday + 2) / 153
	d = yday - (153*month+2)/5 + 1
	y = year + era*400
	if m = month + 3; m > 12 {
		m, y = m-12, y+1
	}
	return y, m, d
}

// dayNumber is the inverse of civil.
func dayNumber(y, m, d int64) int64 {
	if m -= 3; m < 0 {
		m, y = m+12, y-1
	}
	era := y / 400
	if y < 0 {
		era = (y - 399) / 400
	}
	year := y - era*400
	return era*daysPerEra + 365*year + year/4 - year/100 + (153*m+2)/5 + d - 1 - epochFromEra
}

// parseDate reads an HTTP-date in any of the three forms of RFC 9110 §5.6.7.
// It is case-sensitive, as the RFC has it, and takes a wrong day of the week if
// it is the name of one. A two-digit year from 69 is of the last century, as
// net/http has it; a pivot that moves with the clock would need one. ok is
// false for anything else, a day that does not exist, and a leap second.
func parseDate(b []byte) (unixSec int64, ok bool) {
	if len(b) < 4 {
		return 0, false
	}
	switch b[3] {
	case ',':
		return parseFixdate(b)
	case ' ':
		return parseAsctime(b)
	}
	return parseRFC850(b)
}

// parseFixdate reads "Sun, 06 Nov 1994 08:49:37 GMT".
func parseFixdate(b []byte) (int64, bool) {
	if len(b) != dateLen || !shaped(b, "???, 00 ??? 0000 00:00:00 GMT") || nameIndex(dayNames, b[:3]) < 0 {
		return 0, false
	}
	year := 100*two(b[12:]) + two(b[14:])
	return unixTime(year, b[8:11], two(b[5:]), b[17:25])
}

// parseAsctime reads "Sun Nov  6 08:49:37 1994".
func parseAsctime(b []byte) (int64, bool) {
	const shape = "??? ??? ?0 00:00:00 0000"
	if len(b) != len(shape) || !shaped(b, shape) || nameIndex(dayNames, b[:3]) < 0 {
		return 0, false
	}
	day := int64(b[9] - '0')
	switch tens := b[8]; {
	case tens >= '0' && tens <= '9':
		day += 10 * int64(tens-'0')
	case tens != ' ':
		return 0, false
	}
	year := 100*two(b[20:]) + two(b[22:])
	return unixTime(year, b[4:7], day, b[11:19])
}

// parseRFC850 reads "Sunday, 06-Nov-94 08:49:37 GMT".
func parseRFC850(b []byte) (int64, bool) {
	comma := bytes.IndexByte(b, ',')
	if comma < 0 || !longDay(b[:comma]) {
		return 0, false
	}
	const shape = ", 00-???-00 00:00:00 GMT"
	if b = b[comma:]; len(b) != len(shape) || !shaped(b, shape) {
		return 0, false
	}
	year := 1900 + two(b[9:])
	if year < 1969 {
		year += 100
	}
	return unixTime(year, b[5:8], two(b[2:]), b[12:20])
}

func longDay(b []byte) bool {
	switch string(b) {
	case "Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday":
		return true
	}
	return false
}

// shaped compares b with a shape of the same length, where 0 stands for any
// digit and ? for any byte.
func shaped(b []byte, shape string) bool {
	for i, c := range b {
		switch s := shape[i]; {
		case s == '?':
		case s == '0':
			if c < '0' || c > '9' {
				return false
			}
		case s != c:
			return false
		}
	}
	return true
}

// nameIndex returns which of the three-letter names b is, or -1.
func nameIndex(names string, b []byte) int64 {
	for i := 0; i < len(names); i += 3 {
		if names[i:i+3] == string(b) {
			return int64(i / 3)
		}
	}
	return -1
}

// two is the value of two digits.
func two(b []byte) int64 { return int64(b[0]-'0')*10 + int64(b[1]-'0') }

// unixTime puts a date together; clock is "hh:mm:ss".
func unixTime(year int64, month []byte, day int64, clock []byte) (int64, bool) {
	m := nameIndex(monthNames, month) + 1
	h, min, s := two(clock), two(clock[3:]), two(clock[6:])
	if m == 0 || day < 1 || h > 23 || min > 59 || s > 59 {
		return 0, false
	}
	days := dayNumber(year, m, day)
	if _, back, _ := civil(days); back != m { // 31 April is 1 May
		return 0, false
	}
	return days*secsPerDay + h*3600 + min*60 + s, true
}
