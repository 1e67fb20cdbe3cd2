package server

// fault is the reason why a request is answered with something other than
// its object. It carries what the client is told: a status and one line of
// text (faultTable). The zero value means nothing is wrong.
//
// The faults that consumeRequest finds leave the connection in a state that
// cannot be trusted: answer and close. The later ones are of a request that was
// read to its last byte, and need not end the connection.
type fault uint8

const (
	faultNone fault = iota

	faultTLS
	faultBareLF
	faultBareCR
	faultMethod
	faultTarget
	faultTargetForm
	faultRequestLine
	faultVersionSyntax
	faultVersion
	faultRequestLineSize
	faultHeaderSize
	faultFold
	faultFieldName
	faultFieldColon
	faultFieldValue
	faultRepeated
	faultHost
	faultHostMissing
	faultHostRepeated
	faultAuthority
	faultTransferEncoding
	faultContentLength
	faultMethodBody
	faultExpect
	faultHeaderTimeout // the last that closes

	faultKey
	faultKeySize
	faultMethodNotAllowed
	faultUnauthorized
	faultForbidden
	faultNotAllowed
	faultNotFound
	faultPrecondition
	faultRange
	faultInternal
	faultBusy
	faultChanged

	faultCount
)

// faultTable holds the status and the text of every fault. The texts are
// constants: no byte of a request is ever echoed.
var faultTable = [faultCount]struct {
	status int
	text   string
}{
	faultTLS:              {400, "this port speaks plain HTTP/1.1, the client started TLS"},
	faultBareLF:           {400, "a line ends in LF without CR; end every line with CR LF"},
	faultBareCR:           {400, "a CR is not followed by LF; end every line with CR LF"},
	faultMethod:           {400, "the request does not start with a method (letters, then one space)"},
	faultTarget:           {400, "the request target holds a control byte or '#'; percent-encode it"},
	faultTargetForm:       {400, "the request target is neither /path nor http://host/path (and * is for OPTIONS)"},
	faultRequestLine:      {400, "the request line is not: method SP target SP HTTP/1.1"},
	faultVersionSyntax:    {400, "the request line does not end in HTTP/1.1"},
	faultVersion:          {505, "only HTTP/1.1 and HTTP/1.0 are spoken here"},
	faultRequestLineSize:  {414, "the request line is longer than 8192 bytes"},
	faultHeaderSize:       {431, "the header fields take more than 16384 bytes"},
	faultFold:             {400, "a header line starts with a space (folded lines are obsolete)"},
	faultFieldName:        {400, "a header name is empty or holds a byte that is not a letter, a digit or one of !#$%&'*+-.^`|~"},
	faultFieldColon:       {400, "a header line has no colon, or a space before it"},
	faultFieldValue:       {400, "a header value holds a control byte"},
	faultRepeated:         {400, "a header field that must be alone is repeated; join lists with commas in one line"},
	faultHost:             {400, "the Host is not a name or an address with an optional port"},
	faultHostMissing:      {400, "HTTP/1.1 requires a Host header"},
	faultHostRepeated:     {400, "more than one Host header"},
	faultAuthority:        {400, "the host in the request target is not the host in the Host header"},
	faultTransferEncoding: {400, "a read has no body: Transfer-Encoding is refused"},
	faultContentLength:    {400, "a read has no body: only a single Content-Length of 0 is allowed"},
	faultMethodBody:       {405, "only GET, HEAD and OPTIONS are served"},
	faultExpect:           {417, "the only expectation understood is 100-continue"},
	faultHeaderTimeout:    {408, "the request header was not complete in time"},
	faultKey:              {400, "the path has a broken percent-escape, or holds NUL, CR or LF"},
	faultKeySize:          {414, "the object key is longer than 1024 bytes"},
	faultMethodNotAllowed: {405, "only GET, HEAD and OPTIONS are served"},
	faultUnauthorized:     {401, "a bearer token is needed: Authorization: Bearer <id>.<secret>"},
	faultForbidden:        {403, "this object may not be read"},
	faultNotAllowed:       {403, "the tenant may not read this key"},
	faultNotFound:         {404, "no such object"},
	faultPrecondition:     {412, "the object does not meet the If-Match or If-Unmodified-Since condition"},
	faultRange:            {416, "the range lies beyond the end of the object"},
	faultInternal:         {500, "the object could not be read"},
	faultBusy:             {503, "the worker is at its limit; try again"},
	faultChanged:          {503, "the object changed while it was read; try again"},
}

// status returns the status code to answer with, 0 for faultNone.
func (f fault) status() int { return faultTable[f].status }

// closes reports whether the connection must end with the answer.
func (f fault) closes() bool { return faultNone < f && f <= faultHeaderTimeout }

// text returns the line that tells the client what is wrong.
func (f fault) text() string { return faultTable[f].text }
