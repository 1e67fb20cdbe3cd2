// Command talon is the storage worker of an object-store cache.
//
// This is the only package that knows every room: it turns flags into their
// Configs, wires them, runs them and drains them. Nothing imports it.
package main

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run is main without the process: a line for each thing that is wrong, and an
// exit code.
func run(args []string, stdout, stderr io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteC()
	if err != nil {
		code, lines := explain(err, cmd.CommandPath())
		for _, line := range lines {
			fmt.Fprintf(stderr, "talon: %s\n", line)
		}
		return code
	}
	return exitOK
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "talon",
		Short: "Serve byte ranges of local files from per-core io_uring rings",
		// Errors are printed by run, in one line; cobra's own suggestions take
		// four.
		SilenceErrors:      true,
		SilenceUsage:       true,
		DisableSuggestions: true,
	}
	root.AddCommand(newServe(), newConfig(), newPolicy(), newRing(), newTenants(), newToken(), newVersion())
	return root
}

// noArgs words the usual slip, "--residency-probe false", better than cobra's
// "unknown command".
func noArgs(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("unexpected argument %q; a flag's value is written --flag=value", args[0])
	}
	return nil
}
