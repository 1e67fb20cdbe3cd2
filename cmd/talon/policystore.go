package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/talon-worker/talon/coordinator"
	"github.com/talon-worker/talon/policy"
)

// storeSettings are the settings of talon serve that say where the policy is kept.
var storeSettings = []string{"coordinator", "etcd-user", "etcd-password-file", "etcd-tls-ca", "etcd-tls-cert", "etcd-tls-key"}

// coordinatorStore is a coordinator as those who change it see it.
type coordinatorStore interface {
	coordinator.Store
	Ring(context.Context) (coordinator.Ring, uint64, error)
	Force(context.Context) (uint64, error)
}

// withStore opens what --coordinator names, for one command.
func withStore(cmd *cobra.Command, do func(ctx context.Context, s coordinatorStore) error) error {
	conf, found := calledWith(cmd.Flags()).read()
	if len(found) == 0 {
		if err := conf.checkCoordinator(); err != nil {
			found = append(found, problemAt(conf.from["coordinator"], "coordinator", err))
		} else if conf.coordinator == "" {
			found = append(found, problemAt(conf.from["coordinator"], "coordinator", errors.New("is missing: where the policy is kept, file:PATH or etcd://host:port[,...]/prefix")))
		}
	}
	if len(found) > 0 {
		return found
	}
	source, etcd, err := conf.openCoordinator(nil)
	if err != nil {
		return err
	}
	if etcd != nil {
		defer etcd.Close()
	}
	err = do(cmd.Context(), source.(coordinatorStore)) // both are
	var wrong policy.Problems
	if err == nil || errors.As(err, &wrong) || errors.As(err, new(problems)) || errors.As(err, new(problem)) {
		return err
	}
	return cannot("%w", err)
}

func outputFlag(cmd *cobra.Command, output *string, words ...string) {
	cmd.Flags().StringVarP(output, "output", "o", words[0], strings.Join(words, " or "))
	completeWords(cmd, "output", words)
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !slices.Contains(words, *output) {
			return fmt.Errorf("--output: %q is none of %s", *output, strings.Join(words, ", "))
		}
		return run(cmd, args)
	}
}

// record is the record that a name on the command line means: a tenant, or class:NAME, or defaults:.
func record(name string) (string, error) {
	switch class, ok := strings.CutPrefix(name, "class:"); {
	case name == "defaults:":
		return "defaults", nil
	case ok && tenantName.MatchString(class):
		return "class/" + class, nil
	case tenantName.MatchString(name):
		return coordinator.TenantRecord(name), nil
	}
	return "", fmt.Errorf("%q is no tenant; give its id, class:NAME, or \"defaults:\"", name)
}

func records(names []string) (out []string, err error) {
	for _, n := range names {
		r, err := record(n)
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}

func newPolicyGet() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "get [TENANT | class:NAME | defaults:]",
		Short: "Print the policy that a coordinator keeps, or one piece of it",
		Long: "Print the policy that a coordinator keeps, as a policy file that policy set takes, or one piece of it.\n" +
			"The generation is in a comment before it: give it to policy set as --if-generation, so that nobody's change in between is lost.",
		Example: "  talon policy get --coordinator file:policy.yaml\n  talon policy get serving -o json",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withStore(cmd, func(ctx context.Context, s coordinatorStore) error {
				b, err := s.Load(ctx)
				if err != nil {
					return err
				}
				text, generation := []byte(nil), b.Generation
				if len(args) == 0 {
					if text, err = b.Join(); err != nil {
						return err
					}
				} else {
					name, err := record(args[0])
					if err != nil {
						return problemf("%v", err)
					}
					r := b.Find(name)
					if r == nil {
						return fmt.Errorf("%s: there is no such piece of the policy", args[0])
					}
					text, generation = []byte(r.Text), r.Generation
				}
				return printPolicy(cmd.OutOrStdout(), text, generation, output)
			})
		},
	}
	outputFlag(cmd, &output, "yaml", "json")
	bindSettings(cmd, storeSettings...)
	return cmd
}

func printPolicy(w io.Writer, text []byte, generation uint64, output string) error {
	if output == "yaml" {
		_, err := fmt.Fprintf(w, "# generation %d\n%s", generation, text)
		return err
	}
	var value any
	if err := yaml.Unmarshal(text, &value); err != nil {
		return err
	}
	return printJSON(w, map[string]any{"generation": generation, "policy": value})
}

func printJSON(w io.Writer, value any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(value)
}

// change is what set, rm and rollback have in common: load, check the generation that the caller saw, show what changes, save.
type change struct {
	ifGeneration uint64
	dryRun       bool
}

func (c *change) flags(cmd *cobra.Command) {
	cmd.Flags().Uint64Var(&c.ifGeneration, "if-generation", 0, "change nothing unless the policy has this generation, the one that you have looked at")
	cmd.Flags().BoolVar(&c.dryRun, "dry-run", false, "say what would change, and change nothing")
	bindSettings(cmd, storeSettings...)
}

func (c *change) run(cmd *cobra.Command, make func(ctx context.Context, s coordinatorStore, b *coordinator.Book) (coordinator.Change, error)) error {
	return withStore(cmd, func(ctx context.Context, s coordinatorStore) error {
		old, err := s.Load(ctx)
		if err != nil && !errors.Is(err, coordinator.ErrNoPolicy) {
			return err
		}
		if c.ifGeneration != 0 && c.ifGeneration != old.Generation {
			return fmt.Errorf("the policy has generation %d and not %d: %w", old.Generation, c.ifGeneration, coordinator.ErrConflict)
		}
		todo, err := make(ctx, s, &old)
		if err != nil {
			return err
		}
		was, err := old.Resolve()
		if err != nil {
			return err
		}
		next := old.Apply(todo, old.Generation+1)
		now, err := next.Resolve()
		if err != nil {
			return err
		}
		for _, d := range policy.Diff(was.Set, now.Set) {
			fmt.Fprintln(cmd.OutOrStdout(), d)
		}
		switch {
		case todo.Empty():
			fmt.Fprintf(cmd.ErrOrStderr(), "nothing to change: generation %d stays\n", old.Generation)
			return nil
		case c.dryRun:
			fmt.Fprintf(cmd.ErrOrStderr(), "nothing was changed (--dry-run): generation %d stays\n", old.Generation)
			return nil
		}
		generation, err := s.Save(ctx, old, todo, author())
		if err != nil {
			return err
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "generation %d is in force\n", generation)
		return nil
	})
}

// author is who changes a policy, for its history.
func author() string {
	name := "uid " + strconv.Itoa(os.Getuid())
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if host, err := os.Hostname(); err == nil {
		name += "@" + host
	}
	return name
}

func newPolicySet() *cobra.Command {
	var c change
	var replace bool
	cmd := &cobra.Command{
		Use:   "set FILE",
		Short: "Put what a policy file says into a coordinator; what it does not name stays",
		Long: "Put what a policy file says into a coordinator: its tenants, classes and defaults are set, what it does not name stays; with --replace, what it\n" +
			"does not name is removed. Peers and ring_epoch are not a policy and are left out. It prints what changes for whom.",
		Example: "  talon policy set policy.yaml --coordinator etcd://10.0.0.1:2379/talon\n  talon policy set policy.yaml --replace --if-generation 17",
		Args:    oneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.run(cmd, func(_ context.Context, _ coordinatorStore, b *coordinator.Book) (coordinator.Change, error) {
				text, err := readBounded(args[0], policy.MaxFile)
				if err != nil {
					return coordinator.Change{}, cannot("policy %w", err)
				}
				given, _, err := coordinator.Split(args[0], text)
				if err != nil {
					return coordinator.Change{}, err
				}
				return b.ChangeTo(given, replace), nil
			})
		},
		ValidArgsFunction: policyFiles,
	}
	c.flags(cmd)
	cmd.Flags().BoolVar(&replace, "replace", false, "remove what the file does not name")
	return cmd
}

func newPolicyRm() *cobra.Command {
	var c change
	cmd := &cobra.Command{
		Use:     "rm TENANT | class:NAME ...",
		Short:   "Remove tenants, or classes that no tenant has, from a coordinator's policy",
		Example: "  talon policy rm batch --coordinator file:policy.yaml",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.run(cmd, func(_ context.Context, _ coordinatorStore, b *coordinator.Book) (todo coordinator.Change, err error) {
				names, err := records(args)
				if err != nil {
					return todo, problemf("%v", err)
				}
				for i, name := range names {
					if name == "defaults" {
						return todo, problemf("the defaults cannot be removed; set them to {}")
					}
					if b.Find(name) == nil {
						return todo, fmt.Errorf("%s: there is no such piece of the policy", args[i])
					}
				}
				return coordinator.Change{Remove: names}, nil
			})
		},
	}
	c.flags(cmd)
	return cmd
}

func newPolicyList() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the tenants that a coordinator's policy names",
		Example: "  talon policy list --coordinator file:policy.yaml\n  talon policy list -o json",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withStore(cmd, func(ctx context.Context, s coordinatorStore) error {
				b, err := s.Load(ctx)
				if err != nil {
					return err
				}
				p, err := b.Resolve()
				if err != nil {
					return err
				}
				return listTenants(cmd.OutOrStdout(), p, output)
			})
		},
	}
	outputFlag(cmd, &output, "table", "json", "yaml")
	bindSettings(cmd, storeSettings...)
	return cmd
}

// listedTenant is a line of talon policy list.
type listedTenant struct {
	ID         string   `json:"id" yaml:"id"`
	Generation uint64   `json:"generation" yaml:"generation"`
	Class      string   `json:"class,omitempty" yaml:"class,omitempty"`
	Weight     int      `json:"weight" yaml:"weight"`
	Allow      []string `json:"allow" yaml:"allow"`
	Tokens     int      `json:"tokens" yaml:"tokens"`
	Limits     []string `json:"limits" yaml:"limits"`
}

func listTenants(w io.Writer, p *coordinator.Policy, output string) error {
	all := make([]listedTenant, 0, len(p.Set.Tenants))
	for i := range p.Set.Tenants {
		t := &p.Set.Tenants[i]
		one := listedTenant{ID: t.ID, Generation: p.TenantGeneration(t.ID), Class: t.Class, Weight: max(t.Weight, 1), Allow: t.Allow, Tokens: len(t.Tokens)}
		for j := range t.Limits {
			one.Limits = append(one.Limits, policy.FormatLimit(&t.Limits[j]))
		}
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b listedTenant) int { return cmp.Compare(a.ID, b.ID) })
	switch output {
	case "json":
		return printJSON(w, map[string]any{"generation": p.Generation, "tenants": all})
	case "yaml":
		return yaml.NewEncoder(w).Encode(map[string]any{"generation": p.Generation, "tenants": all})
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "TENANT\tGENERATION\tCLASS\tWEIGHT\tALLOW\tTOKENS\tLIMITS")
	for _, t := range all {
		fmt.Fprintf(table, "%s\t%d\t%s\t%d\t%s\t%d\t%s\n", t.ID, t.Generation, dash(t.Class), t.Weight, dash(strings.Join(t.Allow, ",")), t.Tokens, dash(strings.Join(t.Limits, ", ")))
	}
	return table.Flush()
}

func dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

func newPolicyHistory() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:     "history [TENANT | class:NAME | defaults:]",
		Short:   "List the changes of a coordinator's policy, newest first",
		Example: "  talon policy history serving --coordinator file:policy.yaml\n  talon policy history -o json",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			name := ""
			if len(args) == 1 {
				var err error
				if name, err = record(args[0]); err != nil {
					return err
				}
			}
			return withStore(cmd, func(ctx context.Context, s coordinatorStore) error {
				all, err := s.History(ctx, name)
				if err != nil {
					return err
				}
				if output == "table" {
					return historyTable(cmd.OutOrStdout(), all)
				}
				if output == "json" {
					return printJSON(cmd.OutOrStdout(), all)
				}
				return historyYAML(cmd.OutOrStdout(), all)
			})
		},
	}
	outputFlag(cmd, &output, "table", "json", "yaml")
	bindSettings(cmd, storeSettings...)
	return cmd
}

func historyTable(w io.Writer, all []coordinator.Version) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "GENERATION\tTIME\tBY\tWHAT\tCHANGE")
	for _, v := range all {
		what := "changed"
		switch {
		case v.Removed:
			what = "removed"
		case v.New:
			what = "new"
		}
		fmt.Fprintf(table, "%d\t%s\t%s\t%s\t%s\n", v.Generation, v.Time.Format(time.RFC3339), dash(v.By), v.Name, what)
	}
	return table.Flush()
}

// historyYAML writes one document a change, the piece of the policy as it was left under what is known of the change.
func historyYAML(w io.Writer, all []coordinator.Version) error {
	for _, v := range all {
		state := ""
		if v.Removed {
			state = ", removed"
		}
		if _, err := fmt.Fprintf(w, "---\n# generation %d, %s, by %s: %s%s\n%s", v.Generation, v.Time.Format(time.RFC3339), dash(v.By), v.Name, state, v.Text); err != nil {
			return err
		}
	}
	return nil
}

func newPolicyRollback() *cobra.Command {
	var c change
	cmd := &cobra.Command{
		Use:   "rollback GENERATION [TENANT | class:NAME | defaults:] ...",
		Short: "Make a coordinator's policy, or pieces of it, what it was at an earlier generation",
		Long: "Make a coordinator's policy, or the pieces named, what it was at an earlier generation. It is a change like any other and has the next generation:\n" +
			"workers never go back to an older number.",
		Example: "  talon policy rollback 16 --coordinator file:policy.yaml\n  talon policy rollback 16 serving --dry-run",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			to, err := strconv.ParseUint(args[0], 10, 64)
			if err != nil {
				return fmt.Errorf("%q is no generation; talon policy history lists them", args[0])
			}
			names, err := records(args[1:])
			if err != nil {
				return err
			}
			return c.run(cmd, func(ctx context.Context, s coordinatorStore, b *coordinator.Book) (coordinator.Change, error) {
				history, err := s.History(ctx, "")
				if err != nil {
					return coordinator.Change{}, err
				}
				return b.BackTo(to, history, names...)
			})
		},
	}
	c.flags(cmd)
	return cmd
}
