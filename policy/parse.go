package policy

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/talon-worker/talon/qos"
)

// Parse reads a policy file; name is how errors call it. The error is Problems.
func Parse(name string, text []byte) (*Set, error) {
	p := &parser{name: name, classes: map[string]*level{}, peerAt: map[string]int{}}
	if len(text) > MaxFile {
		p.wrong(1, "more than %s; is it the right file?", FormatSize(MaxFile))
		return nil, p.found
	}
	p.document(text)
	set := p.resolve()
	if len(p.found) > 0 {
		return nil, p.found.settled(p.more)
	}
	return set, nil
}

// parser is what has been read of one file.
type parser struct {
	name  string
	found Problems // at most maxNoted
	more  int      // of what was found beyond
	// unknown: a field was not understood, so that nothing is said to be missing.
	unknown bool

	defaults level
	classes  map[string]*level
	tenants  []entry
	epoch    int64
	epochAt  int // line, 0: not written
	peers    []Peer
	peersAt  int
	peerAt   map[string]int // line of each peer's id and addr
}

// level is one of the three places where a field may be written.
type level struct {
	values map[string]value // by field.path
	limits [qos.OriginWriteBytes + 1]int
	line   int
}

// value is a field as it is written.
type value struct {
	line int
	bad  bool // it was refused, and stands here so that it is not said to be missing
	n    int64
	list []string
}

// entry is one tenant as it is written.
type entry struct {
	level
	id, class string
	classAt   int
	tokens    []Token
}

func (p *parser) wrong(line int, format string, args ...any) {
	if len(p.found) >= maxNoted {
		p.more++
		return
	}
	p.found = append(p.found, Problem{p.name, line, fmt.Sprintf(format, args...)})
}

// document wants one mapping.
func (p *parser) document(text []byte) {
	var doc, extra yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	if err := decoder.Decode(&doc); errors.Is(err, io.EOF) {
		p.wrong(1, "the file is empty: a policy names its tenants")
		return
	} else if err != nil {
		p.syntax(err)
		return
	}
	top := doc.Content[0]
	p.mapping(top, "a policy", []string{"tenants", "classes", "defaults", "ring_epoch", "peers"}, func(key string, n *yaml.Node, line int) {
		switch key {
		case "tenants":
			p.list(n, line, key, MaxTenants, p.tenant)
		case "classes":
			p.classesOf(n)
		case "defaults":
			p.level(n, "defaults", &p.defaults)
		case "ring_epoch":
			p.epochAt = line
			v := p.value(field{path: key, kind: count, min: 1, max: math.MaxInt64}, n, line)
			p.epoch = v.n
		case "peers":
			p.peersAt = line
			p.list(n, line, key, MaxPeers, p.peer)
		}
	})
	if err := decoder.Decode(&extra); err == nil {
		p.wrong(extra.Line, "a second document begins; a policy is one")
	} else if !errors.Is(err, io.EOF) {
		p.syntax(err)
	}
}

var yamlLine = regexp.MustCompile(`^yaml: (?:line ([0-9]+): )?`)

// countsFromZero are the complaints whose line the YAML library counts from 0, those of its parser; the others are its scanner's.
var countsFromZero = regexp.MustCompile(`^did not find expected (<|node content|'-' indicator|key|',' or)|^found undefined tag handle`)

// syntax takes over what the YAML library says. It leaves out the number of the first line.
func (p *parser) syntax(err error) {
	line, text := 1, err.Error()
	if m := yamlLine.FindStringSubmatch(text); m != nil {
		text = text[len(m[0]):]
		if n, err := strconv.Atoi(m[1]); err == nil {
			line = n
			if countsFromZero.MatchString(text) {
				line++
			}
		}
	}
	p.unknown = true
	p.wrong(line, "not YAML: %.200s", text)
}

// mapping visits the members of n once each, if they are known.
func (p *parser) mapping(n *yaml.Node, what string, known []string, visit func(key string, n *yaml.Node, line int)) {
	switch {
	case n.Kind == yaml.AliasNode:
		p.reference(n)
		return
	case n.Kind != yaml.MappingNode:
		p.unknown = true
		p.wrong(n.Line, "%s is a mapping, lines of the form  field: value", what)
		return
	}
	first := map[string]int{}
	for i := 0; i < len(n.Content); i += 2 {
		key, member := n.Content[i], n.Content[i+1]
		switch at, again := first[key.Value]; {
		case known == nil && (key.Kind != yaml.ScalarNode || key.ShortTag() != "!!str"):
			p.unknown = true
			p.wrong(key.Line, "%s: the name %.64q is not text; put it in quotes", what, key.Value)
		case known != nil && (key.Kind != yaml.ScalarNode || !slices.Contains(known, key.Value)):
			p.unknown = true
			p.wrong(key.Line, "unknown field %.64q; %s has %s", key.Value, what, strings.Join(known, ", "))
		case again:
			p.wrong(key.Line, "%s is written twice, first in line %d", key.Value, at)
		default:
			first[key.Value] = key.Line
			visit(key.Value, member, key.Line)
		}
	}
}

// list visits the members of n, at most most of them.
func (p *parser) list(n *yaml.Node, line int, what string, most int, visit func(n *yaml.Node)) {
	switch {
	case n.Kind == yaml.AliasNode:
		p.reference(n)
	case n.Kind != yaml.SequenceNode:
		p.unknown = true
		p.wrong(line, "%s is a list, lines that begin with a dash, or [one, two]", what)
	case len(n.Content) > most:
		p.unknown = true
		p.wrong(line, "%s: %d are more than the %d that there may be", what, len(n.Content), most)
	default:
		for _, member := range n.Content {
			visit(member)
		}
	}
}

func (p *parser) reference(n *yaml.Node) {
	p.unknown = true
	p.wrong(n.Line, "*%.64s: references are not taken; write the value", n.Value)
}

// level reads what a class or the defaults write, into l.
func (p *parser) level(n *yaml.Node, what string, l *level) {
	l.line, l.values = n.Line, map[string]value{}
	p.mapping(n, what, groups[""], func(key string, n *yaml.Node, line int) { p.member(n, key, line, l) })
}

// member reads a field, or the group of fields, at path.
func (p *parser) member(n *yaml.Node, path string, line int, l *level) {
	if f, ok := fields[path]; ok {
		l.values[path] = p.value(f, n, line)
		return
	}
	name := path[strings.LastIndexByte(path, '.')+1:]
	if m, err := qos.ParseMetric(name); err == nil {
		l.limits[m] = line
	}
	p.mapping(n, name, groups[path], func(key string, n *yaml.Node, line int) { p.member(n, path+"."+key, line, l) })
}

func (p *parser) classesOf(n *yaml.Node) {
	p.mapping(n, "classes", nil, func(name string, n *yaml.Node, line int) {
		if !identifier.MatchString(name) {
			p.wrong(line, "class %.80q: %s", name, identifierRule)
		}
		l := new(level)
		p.classes[name] = l
		p.level(n, "a class", l)
		if len(p.classes) == MaxClasses+1 {
			p.wrong(line, "classes: more than the %d that there may be", MaxClasses)
		}
	})
}

// identifier is what tenants, classes and workers may be called: it goes into labels, logs and headers as it is.
var identifier = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

const identifierRule = "use up to 64 letters, digits, dots, dashes and underscores, beginning with a letter or digit"

// tokenName has no dot: it ends at the first one of a credential.
var tokenName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

func (p *parser) tenant(n *yaml.Node) {
	e := entry{level: level{line: n.Line, values: map[string]value{}}}
	named := false
	p.mapping(n, "a tenant", append([]string{"id", "class", "tokens"}, groups[""]...), func(key string, n *yaml.Node, line int) {
		switch key {
		case "id":
			named = true
			e.line = line
			e.id = p.text(n, line, key)
			if e.id != "" && !identifier.MatchString(e.id) {
				p.wrong(line, "id %.80q: %s", e.id, identifierRule)
			}
		case "class":
			e.classAt = line
			e.class = p.text(n, line, key)
		case "tokens":
			p.list(n, line, key, MaxTokens, func(n *yaml.Node) { p.token(n, &e) })
		default:
			p.member(n, key, line, &e.level)
		}
	})
	if !named && n.Kind == yaml.MappingNode {
		p.wrong(n.Line, "a tenant without an id; write  id: NAME")
	}
	p.tenants = append(p.tenants, e)
}

func (p *parser) token(n *yaml.Node, e *entry) {
	var t Token
	var named, hashed bool
	p.mapping(n, "a token", []string{"id", "sha256"}, func(key string, n *yaml.Node, line int) {
		text := p.text(n, line, key)
		switch {
		case key == "id":
			named = true
			if t.ID = text; text != "" && !tokenName.MatchString(text) {
				p.wrong(line, "token id %.80q: use up to 64 letters, digits, dashes and underscores", text)
			}
		default:
			hashed = true
			sum, err := hex.DecodeString(text)
			if text != "" && (err != nil || len(sum) != len(t.SHA256) || strings.Trim(text, "0") == "") { // all zeros: no secret has it
				p.wrong(line, "sha256 is the hash of the secret, 64 hexadecimal digits; talon token new makes both")
			} else {
				copy(t.SHA256[:], sum)
			}
		}
	})
	if n.Kind != yaml.MappingNode {
		return
	}
	if !named || !hashed {
		p.wrong(n.Line, "a token has an id and a sha256; talon token new makes both")
	}
	e.tokens = append(e.tokens, t)
}

func (p *parser) peer(n *yaml.Node) {
	var peer Peer
	var named, placed bool
	p.mapping(n, "a peer", []string{"id", "addr"}, func(key string, n *yaml.Node, line int) {
		text := p.text(n, line, key)
		switch {
		case key == "id":
			named = true
			if peer.ID = text; text != "" && !identifier.MatchString(text) {
				p.wrong(line, "id %.80q: %s", text, identifierRule)
			}
			p.once("id", text, line)
		default:
			placed = true
			peer.Addr = text
			if host, port, err := net.SplitHostPort(text); text != "" && (err != nil || host == "" || !isPort(port)) {
				p.wrong(line, "addr %.80q: write host:port, for example 10.0.0.7:7001", text)
			}
			p.once("addr", text, line)
		}
	})
	if n.Kind == yaml.MappingNode && (!named || !placed) {
		p.wrong(n.Line, "a peer has an id and an addr")
	}
	p.peers = append(p.peers, peer)
}

// once refuses what another peer has written, too.
func (p *parser) once(key, text string, line int) {
	if first, again := p.peerAt[key+text]; again && text != "" {
		p.wrong(line, "%s %.80s is another peer's, too, in line %d", key, text, first)
		return
	}
	p.peerAt[key+text] = line
}

func isPort(text string) bool {
	n, err := parseCount(text)
	return err == nil && n > 0 && n < 1<<16
}

// text reads a scalar that YAML takes for text too: an id 42 or 1e9 would be another one in another reader.
func (p *parser) text(n *yaml.Node, line int, what string) string {
	switch tag := n.ShortTag(); {
	case n.Kind == yaml.AliasNode:
		p.reference(n)
	case n.Kind != yaml.ScalarNode:
		p.wrong(line, "%s takes one value, not a list or a mapping", what)
	case tag == "!!null" || tag == "!!str" && n.Value == "":
		p.wrong(line, "%s has no value", what)
	case tag != "!!str":
		p.wrong(line, "%s: %.64s is not text; put it in quotes", what, n.Value)
	default:
		return n.Value
	}
	return ""
}

// value reads a field.
func (p *parser) value(f field, n *yaml.Node, line int) value {
	v := value{line: line}
	name := f.path[strings.LastIndexByte(f.path, '.')+1:]
	before := len(p.found) + p.more
	switch {
	case n.Kind == yaml.AliasNode:
		p.reference(n)
	case f.kind == prefixes:
		v.list = p.prefixes(n, line)
	case n.Kind != yaml.ScalarNode:
		p.wrong(line, "%s takes one value, not a list or a mapping", name)
	case n.ShortTag() == "!!null":
		p.wrong(line, "%s has no value; write one, or remove the line to inherit it", name)
	case !strings.HasPrefix(n.ShortTag(), "!!"):
		p.wrong(line, "%s: tags (%.64s) are not taken; write the value", name, n.Tag)
	case f.none && n.Value == "none":
	default:
		var err error
		if v.n, err = f.read(n); err != nil {
			p.wrong(line, "%s: %v", name, err)
		}
	}
	v.bad = len(p.found)+p.more > before
	return v
}

// maxScalar is longer than any number with its unit.
const maxScalar = 64

// read returns a scalar in the units of its kind.
func (f *field) read(n *yaml.Node) (v int64, err error) {
	text := n.Value
	if len(text) > maxScalar {
		return 0, fmt.Errorf("%.20q... is longer than any value", text)
	}
	switch f.kind {
	case toggle:
		if n.ShortTag() != "!!bool" {
			return 0, fmt.Errorf("%.64q is neither true nor false", text)
		}
		if strings.EqualFold(text, "true") {
			v = 1
		}
		return v, nil
	case word:
		i := slices.Index(f.words, text)
		if i < 0 {
			return 0, fmt.Errorf("%.64q is none of %s", text, strings.Join(f.words, ", "))
		}
		return int64(i), nil
	case count:
		v, err = parseCount(text)
	case size:
		v, err = ParseSize(text)
	case requestRate, byteRate:
		example, parse := "500/s", parseCount
		if f.kind == byteRate {
			example, parse = "100MiB/s", ParseSize
		}
		units, perSecond := strings.CutSuffix(text, "/s")
		if v, err = parse(units); err != nil || !perSecond {
			return 0, fmt.Errorf("%.64q is not a rate; write %s", text, example)
		}
	case span:
		d, bad := time.ParseDuration(text)
		if v, err = int64(d), nil; bad != nil {
			return 0, fmt.Errorf("%.64q is not a duration; write 500ms, 2s or 10m", text)
		}
	}
	switch {
	case err != nil:
		return 0, err
	case v == 0 && f.max > 0:
		return 0, f.zero()
	case v < f.min || v > f.max:
		return 0, fmt.Errorf("%.64s is outside of %s to %s", text, f.print(f.min), f.print(f.max))
	}
	return v, nil
}

// zero says what to write instead.
func (f *field) zero() error {
	instead := "remove the line to inherit it"
	if strings.HasPrefix(f.path, "limits.") {
		instead += ", or lift the limit with  enabled: false"
	}
	if f.none {
		instead = "write none"
	}
	return fmt.Errorf("zero is refused, it could mean nothing or everything; %s", instead)
}

// print writes a value as the file takes it.
func (f *field) print(v int64) string {
	switch f.kind {
	case size:
		return sizeText(v)
	case byteRate:
		return sizeText(v) + "/s"
	case requestRate:
		return strconv.FormatInt(v, 10) + "/s"
	case span:
		return time.Duration(v).String()
	case word:
		return f.words[v]
	case toggle:
		return strconv.FormatBool(v == 1)
	}
	return strconv.FormatInt(v, 10)
}

// prefixes reads what a tenant may read.
func (p *parser) prefixes(n *yaml.Node, line int) []string {
	all := []string{}
	p.list(n, line, "allow", MaxAllow, func(n *yaml.Node) {
		prefix := p.text(n, n.Line, "allow")
		switch {
		case prefix == "":
		case prefix[0] != '/':
			p.wrong(n.Line, "allow %.80q: a prefix of a path begins with a slash", prefix)
		case len(prefix) > MaxPrefix:
			p.wrong(n.Line, "allow: a prefix of %d bytes is longer than any key, %d", len(prefix), MaxPrefix)
		case strings.ContainsAny(prefix, "\x00\r\n"):
			p.wrong(n.Line, "allow %.80q: no key has NUL, CR or LF", prefix)
		case slices.Contains(all, prefix):
			p.wrong(n.Line, "allow: %.80q is written twice", prefix)
		default:
			all = append(all, prefix)
		}
	})
	return all
}
