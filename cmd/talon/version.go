package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/talon-worker/talon/admin"
)

// version and commit are set by the Makefile through -ldflags -X; without it
// the module's own build information is used.
var version, commit string

func build() admin.Build {
	b := admin.Build{Version: version, Commit: commit, Go: runtime.Version()}
	info, ok := debug.ReadBuildInfo()
	if ok && b.Version == "" {
		b.Version = info.Main.Version
	}
	if b.Version == "" || b.Version == "(devel)" {
		b.Version = "devel"
	}
	if ok && b.Commit == "" {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				b.Commit = s.Value
			}
		}
	}
	return b
}

func newVersion() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			b := build()
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(struct {
					admin.Build
					Platform string `json:"platform"`
				}{b, platform()})
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "talon %s%s (%s, %s)\n", b.Version, parenthesis(b.Commit), b.Go, platform())
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print it as JSON")
	return cmd
}

func platform() string { return runtime.GOOS + "/" + runtime.GOARCH }

func parenthesis(commit string) string {
	if commit == "" {
		return ""
	}
	return " " + commit[:min(len(commit), 12)]
}
