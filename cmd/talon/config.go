package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"
)

var outputs = []string{"table", "json", "yaml"}

func newConfig() *cobra.Command {
	var checkOnly bool
	var output string
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Print every setting with its value and where that comes from",
		Long: "Print every setting of talon serve with its value and where that comes from:\nflag, environment, file, or default. " +
			"It takes the flags of talon serve.\n\nWith -o yaml it prints a file for --config.",
		Example: "  talon config --config talon.yaml\n  talon config -o yaml > talon.yaml\n  talon config --config talon.yaml --check",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !slices.Contains(outputs, output) {
				return fmt.Errorf("--output: %q is none of %s", output, strings.Join(outputs, ", "))
			}
			c := calledWith(cmd.Flags())
			if checkOnly {
				conf, found := c.resolve()
				return check(cmd, conf, found)
			}
			conf, found := c.read()
			if len(found) > 0 {
				return found
			}
			return map[string]func(*effective, io.Writer) error{
				"table": (*effective).printTable, "json": (*effective).printJSON, "yaml": (*effective).printYAML,
			}[output](conf, cmd.OutOrStdout())
		},
	}
	bindSettings(cmd)
	cmd.Flags().StringVarP(&output, "output", "o", "table", "table, json, or yaml (a file for --config)")
	completeWords(cmd, "output", outputs)
	cmd.Flags().BoolVar(&checkOnly, "check", false, "check instead of printing, as talon serve --check")
	return cmd
}

// describe is a source as people read it.
func (s source) describe(name string) string {
	switch s.kind {
	case fromFile:
		return s.at
	case fromEnv:
		return "env " + s.at
	case fromFlag:
		return "flag --" + name
	}
	return string(s.kind)
}

func (e *effective) printTable(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "SETTING\tVALUE\tSOURCE")
	for _, s := range e.settings() {
		fmt.Fprintf(t, "%s\t%s\t%s\n", s.name, printable(s.value.String()), e.from[s.name].describe(s.name))
	}
	return t.Flush()
}

// printable quotes what would break or vanish in a table.
func printable(text string) string {
	if quoted := strconv.Quote(text); text == "" || quoted != `"`+text+`"` {
		return quoted
	}
	return text
}

func (e *effective) printJSON(w io.Writer) error {
	type row struct {
		Setting string     `json:"setting"`
		Value   any        `json:"value"`
		Source  sourceKind `json:"source"`
		At      string     `json:"at,omitempty"`
	}
	rows := []row{}
	for _, s := range e.settings() {
		from := e.from[s.name]
		rows = append(rows, row{s.name, jsonValue(s), from.kind, from.at})
	}
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(rows)
}

// jsonValue keeps numbers and booleans; what has a unit is text.
func jsonValue(s setting) any {
	switch v := s.value.(type) {
	case *number:
		return int(*v)
	case *toggle:
		return bool(*v)
	}
	return s.value.String()
}

// printYAML writes a file that says the same, with each value's source behind it.
func (e *effective) printYAML(w io.Writer) error {
	top := &yaml.Node{Kind: yaml.MappingNode}
	for _, s := range e.settings() {
		value := &yaml.Node{Kind: yaml.ScalarNode, Value: s.value.String(), LineComment: strconv.Quote(e.from[s.name].describe(s.name))}
		value.LineComment = strings.Trim(value.LineComment, `"`) // a line of it, whatever the file is called
		if s.value.Type() == "string" {
			value.SetString(s.value.String()) // bytes that are not UTF-8 become !!binary
			if value.Tag == "!!str" {
				value.Style = yaml.DoubleQuotedStyle
			}
		}
		top.Content = append(top.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: s.name}, value)
	}
	var b bytes.Buffer
	encoder := yaml.NewEncoder(&b)
	if err := encoder.Encode(top); err != nil {
		return err
	}
	if err := encoder.Close(); err != nil {
		return err
	}
	_, err := w.Write(b.Bytes())
	return err
}
