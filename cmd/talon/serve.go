package main

import (
	"log/slog"
	"os"
	"os/signal"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"
)

func newServe() *cobra.Command {
	var checkOnly bool
	cmd := &cobra.Command{
		Use:   "serve --origin DIRECTORY",
		Short: "Serve a directory over HTTP/1.1",
		Example: "  talon serve --origin ./sample\n  curl -r 0-99 http://127.0.0.1:8080/64MiB.bin\n" +
			"  talon serve --config talon.yaml --check",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c := calledWith(cmd.Flags())
			conf, found := c.resolve()
			if checkOnly {
				return check(cmd, conf, found)
			}
			if len(found) > 0 {
				return found
			}
			level := new(slog.LevelVar)
			level.Set(conf.level())
			return serve(&worker{call: c, conf: conf, level: level, log: newLogger(cmd.ErrOrStderr(), level, conf.logFormat)})
		},
	}
	bindSettings(cmd)
	cmd.Flags().BoolVar(&checkOnly, "check", false, "check the configuration, the origin and io_uring, bind nothing, and exit as serve would")
	return cmd
}

// given is a setting's text on the command line. It is judged with those of the
// file and the environment, so that all errors are shown at once.
type given struct{ text, kind string }

func (g *given) Set(text string) error { g.text = text; return nil }
func (g *given) Type() string          { return g.kind }
func (g *given) String() string        { return g.text }

// bindSettings gives cmd a flag for every setting, or for those that are named, and --config.
func bindSettings(cmd *cobra.Command, only ...string) {
	fs := cmd.Flags()
	fs.SortFlags = false
	f := defaults()
	for _, s := range f.settings() {
		if only != nil && !slices.Contains(only, s.name) {
			continue
		}
		kind := s.value.Type()
		flag := fs.VarPF(&given{s.value.String(), kind}, s.name, "", s.usage)
		if kind == "bool" {
			flag.NoOptDefVal = "true"
		}
		if s.words != nil {
			completeWords(cmd, s.name, s.words)
		}
	}
	fs.String("config", "", "a `file` of settings, weaker than flags and TALON_* variables; TALON_CONFIG names it, too")
	_ = cmd.MarkFlagDirname("origin") // fails where it is not bound
	_ = cmd.MarkFlagFilename("config", "yaml", "yml")
	_ = cmd.MarkFlagFilename("policy", "yaml", "yml")
}

// completeWords offers the values of a flag to the shell.
func completeWords(cmd *cobra.Command, flag string, words []string) {
	// It fails for a flag that does not exist, or twice.
	if err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err)
	}
}

// calledWith takes what the process was started with.
func calledWith(fs *pflag.FlagSet) call {
	c := call{flags: map[string]string{}, environ: os.Environ(), file: os.Getenv(envConfig)}
	fs.Visit(func(f *pflag.Flag) {
		if _, ok := f.Value.(*given); ok {
			c.flags[f.Name] = f.Value.String()
		}
	})
	if f := fs.Lookup("config"); f.Changed {
		c.file = f.Value.String()
	}
	return c
}

// serve runs a worker until a signal has drained it.
func serve(w *worker) error {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, unix.SIGTERM, unix.SIGINT, unix.SIGHUP)
	defer signal.Stop(signals)
	if err := w.start(); err != nil {
		return err
	}
	return w.run(signals)
}
