package server

// validator identifies the selected representation: what a request's
// conditions are held against. RFC 9110 §8.8.
type validator struct {
	etag  []byte // opaque-tag with its quotes, without W/
	weak  bool   // the tag and the date may not tell two versions apart yet
	mtime int64  // Last-Modified, Unix seconds
}

// verdict is what the conditions of a GET or HEAD come to.
type verdict uint8

const (
	proceed              verdict = iota // 200, or 206 if there is a Range
	proceedIgnoringRange                // 200: If-Range names another version
	notModified                         // 304
	preconditionFailed                  // 412
)

// evaluate holds the conditions of a GET or HEAD against the object, in the
// order of RFC 9110 §13.2.2. A condition that is not valid HTTP is judged the
// safe way: a date that is none is no condition (§13.1.3, §13.1.4), a tag
// that is none matches nothing.
//
// No clock is needed: whether the validator is strong yet is in v.weak.
func evaluate(r *request, v *validator) verdict {
	switch {
	case r.ifMatch != nil:
		if !matchesAny(r.ifMatch, v, true) {
			return preconditionFailed
		}
	case r.ifUnmodifiedSince != nil:
		if date, ok := parseDate(r.ifUnmodifiedSince); ok && v.mtime > date {
			return preconditionFailed
		}
	}
	switch {
	case r.ifNoneMatch != nil:
		if matchesAny(r.ifNoneMatch, v, false) {
			return notModified
		}
	case r.ifModifiedSince != nil:
		if date, ok := parseDate(r.ifModifiedSince); ok && v.mtime <= date {
			return notModified
		}
	}
	if r.rang != nil && r.ifRange != nil && !sameVersion(r.ifRange, v) {
		return proceedIgnoringRange
	}
	return proceed
}

// matchesAny compares the tags of If-Match (strongly) or If-None-Match
// (weakly) with the object's. "*" is any object, and stands alone. Reading
// stops at what is not a tag.
func matchesAny(list []byte, v *validator, strong bool) bool {
	if len(list) == 1 && list[0] == '*' {
		return true
	}
	for {
		for len(list) > 0 && (isBlank(list[0]) || list[0] == ',') {
			list = list[1:]
		}
		tag, weak, n := consumeTag(list)
		if n <= 0 {
			return false
		}
		if string(tag) == string(v.etag) && !(strong && (weak || v.weak)) {
			return true
		}
		list = list[n:]
		for len(list) > 0 && isBlank(list[0]) {
			list = list[1:]
		}
		if len(list) > 0 && list[0] != ',' {
			return false
		}
	}
}

// sameVersion compares If-Range with the object, strongly: parts of two
// versions must never be put together. A date must be the very Last-Modified,
// and old enough to be strong. RFC 9110 §13.1.5.
func sameVersion(ifRange []byte, v *validator) bool {
	if v.weak {
		return false
	}
	if tag, weak, n := consumeTag(ifRange); n > 0 {
		return n == len(ifRange) && !weak && string(tag) == string(v.etag)
	}
	date, ok := parseDate(ifRange)
	return ok && date == v.mtime
}

// consumeTag reads one entity-tag, RFC 9110 §8.8.3; tag keeps its quotes. n
// is 0 if there is none.
func consumeTag(b []byte) (tag []byte, weak bool, n int) {
	start := 0
	if len(b) >= 2 && b[0] == 'W' && b[1] == '/' {
		weak, start = true, 2
	}
	if start == len(b) || b[start] != '"' {
		return nil, false, 0
	}
	for i := start + 1; i < len(b); i++ {
		switch c := b[i]; {
		case c == '"':
			return b[start : i+1], weak, i + 1
		case c <= ' ' || c == 0x7f:
			return nil, false, 0
		}
	}
	return nil, false, 0
}
