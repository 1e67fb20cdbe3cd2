package server

// method is what a request asks for. The zero value is a method that is not
// served, so that a request nobody filled in does nothing.
type method uint8

const (
	methodOther   method = iota // a valid token that is not served: 405
	methodGet                   // RFC 9110 §9.3.1
	methodHead                  // RFC 9110 §9.3.2
	methodOptions               // RFC 9110 §9.3.7
)

// allowedMethods is the value of Allow.
const allowedMethods = "GET, HEAD, OPTIONS"

// tokenByte marks the bytes of a token, RFC 9110 §5.6.2.
var tokenByte = func() (t [256]bool) {
	for c := '0'; c <= '9'; c++ {
		t[c] = true
	}
	for c := 'a'; c <= 'z'; c++ {
		t[c], t[c-'a'+'A'] = true, true
	}
	for _, c := range "!#$%&'*+-.^_`|~" {
		t[c] = true
	}
	return t
}()

// consumeMethod reads the method and the one space after it. n == 0: more
// bytes are needed; n < 0: not a method. Methods are case-sensitive, RFC 9110
// §9.1.
func consumeMethod(b []byte) (m method, n int) {
	if len(b) >= 4 && string(b[:4]) == "GET " {
		return methodGet, 4
	}
	for n < len(b) && tokenByte[b[n]] {
		n++
	}
	switch {
	case n == len(b):
		return methodOther, 0
	case n == 0 || b[n] != ' ':
		return methodOther, -1
	}
	switch string(b[:n]) {
	case "HEAD":
		m = methodHead
	case "OPTIONS":
		m = methodOptions
	}
	return m, n + 1
}
