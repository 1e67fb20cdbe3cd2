package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"

	yamlparser "github.com/knadh/koanf/parsers/yaml"
	"github.com/knadh/koanf/providers/rawbytes"
	"go.yaml.in/yaml/v3"

	"github.com/talon-worker/talon/policy"
)

// maxFile bounds a configuration file; a full one with comments takes 4 KiB.
const maxFile = 1 << 20

// readFile reads the settings of a file, or says what is wrong with it, line by
// line. A file with a problem gives nothing.
//
// koanf merges maps and has forgotten the lines by then, so the nodes are judged
// first: what its parser sees afterwards is known to be good.
func readFile(path string) (layer, problems) {
	text, err := readBounded(path, maxFile)
	if err != nil {
		return newLayer(), problems{cannot("configuration %w", err)}
	}
	return parseFile(path, text)
}

// readBounded reads a file of at most most bytes.
func readBounded(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, errors.Unwrap(err))
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", path, errors.Unwrap(err))
	case int64(len(text)) > most:
		return nil, fmt.Errorf("%s: more than %s; is it the right file?", path, policy.FormatSize(most))
	}
	return text, nil
}

func parseFile(path string, text []byte) (layer, problems) {
	l := newLayer()
	f := fileCheck{path: path, lines: map[string]int{}}
	f.document(text)
	if len(f.found) > 0 {
		return l, f.found
	}
	if err := l.values.Load(rawbytes.Provider(text), yamlparser.Parser()); err != nil {
		return newLayer(), problems{syntaxError(path, err)}
	}
	for name, line := range f.lines {
		l.at[name] = source{fromFile, fmt.Sprintf("%s:%d", path, line)}
	}
	return l, nil
}

// fileCheck goes through the nodes of one file.
type fileCheck struct {
	path  string
	lines map[string]int // of each setting's first mention
	found problems
}

func (f *fileCheck) wrong(line int, format string, args ...any) {
	f.found = append(f.found, problemf("%s:%d: %s", f.path, line, fmt.Sprintf(format, args...)))
}

// document wants one mapping, or nothing at all.
func (f *fileCheck) document(text []byte) {
	var doc, extra yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	if err := decoder.Decode(&doc); errors.Is(err, io.EOF) {
		return
	} else if err != nil {
		f.found = append(f.found, syntaxError(f.path, err))
		return
	}
	switch top := doc.Content[0]; {
	case top.Kind == yaml.MappingNode:
		f.mapping(top)
	case top.ShortTag() != "!!null": // only comments
		f.wrong(top.Line, "a configuration is lines of the form  setting: value")
	}
	if err := decoder.Decode(&extra); err == nil {
		f.wrong(extra.Line, "a second document begins; a configuration is one")
	} else if !errors.Is(err, io.EOF) {
		f.found = append(f.found, syntaxError(f.path, err))
	}
}

func (f *fileCheck) mapping(top *yaml.Node) {
	scratch := defaults()
	for i := 0; i < len(top.Content); i += 2 {
		key, node := top.Content[i], top.Content[i+1]
		s, known := scratch.lookup(key.Value)
		first, again := f.lines[key.Value]
		switch {
		case key.Kind != yaml.ScalarNode || key.ShortTag() != "!!str" || !known:
			f.wrong(key.Line, "unknown setting %q; %s", key.Value, suggest(key.Value, func(s setting) string { return s.name }))
			continue
		case again:
			f.wrong(key.Line, "%s is written twice, first in line %d", s.name, first)
		default:
			f.lines[key.Value] = key.Line
		}
		if err := setNode(s, node); err != nil {
			f.wrong(key.Line, "%s: %v", s.name, err)
		}
	}
}

// yamlKinds are the types of YAML that a kind of setting is written in. The
// others would have to be guessed at: is 1 true, is 1.0 a whole number?
var yamlKinds = map[string][]string{
	"string": {"!!str", "!!binary"}, "int": {"!!int"}, "bool": {"!!bool"},
	"size": {"!!int", "!!str"}, "rate": {"!!int", "!!str"}, "duration": {"!!int", "!!str"},
}

// notKind says what a value of another type is not.
var notKind = map[string]string{
	"string": "text; put it in quotes", "int": "a whole number", "bool": "true or false",
	"size": "a size; write 64KiB", "rate": "a rate; write 1KiB/s", "duration": "a duration; write 500ms, 30s or 2m",
}

// setNode sets s to a value as YAML understands it.
func setNode(s setting, node *yaml.Node) error {
	tag, kind := node.ShortTag(), s.value.Type()
	switch {
	case node.Kind == yaml.AliasNode:
		return fmt.Errorf("*%s: references are not taken; write the value", node.Value)
	case node.Kind != yaml.ScalarNode:
		return errors.New("takes one value, not a list or a mapping")
	case tag == "!!null":
		return errors.New(`has no value; write "" for an empty one, or remove the line`)
	case !slices.Contains(yamlKinds[kind], tag) && node.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0:
		return fmt.Errorf("%q is text; write it without quotes", node.Value)
	case !slices.Contains(yamlKinds[kind], tag):
		return fmt.Errorf("%s is not %s", printable(node.Value), notKind[kind])
	}
	var value any
	if err := node.Decode(&value); err != nil {
		return fmt.Errorf("%q cannot be read as %s", node.Value, tag)
	}
	return s.value.Set(fmt.Sprint(value))
}

var yamlLine = regexp.MustCompile(`^yaml: (?:line ([0-9]+): )?`)

// syntaxError turns "yaml: line 3: ..." into "FILE:3: ...". The parser leaves
// out the number of the first line.
func syntaxError(path string, err error) error {
	line, text := 1, err.Error()
	if m := yamlLine.FindStringSubmatch(text); m != nil {
		text = text[len(m[0]):]
		if n, err := strconv.Atoi(m[1]); err == nil {
			line = n
		}
	}
	return problemf("%s:%d: %s", path, line, text)
}
