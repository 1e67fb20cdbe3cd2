package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/talon-worker/talon/policy"
	"github.com/talon-worker/talon/qos"
)

func newPolicy() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "policy",
		Short: "Check and compare policy files: who the tenants are and what they may have",
		Args:  noArgs,
		RunE:  which("check", "diff"),
	}
	cmd.AddCommand(newPolicyCheck(), newPolicyDiff())
	return cmd
}

// which is what a command answers that is only a group of others.
func which(commands ...string) func(*cobra.Command, []string) error {
	return func(*cobra.Command, []string) error {
		return fmt.Errorf("say which: %s", strings.Join(commands, " or "))
	}
}

func newPolicyCheck() *cobra.Command {
	var workers int
	cmd := &cobra.Command{
		Use:   "check FILE",
		Short: "Check a policy file and say in words what it means",
		Long: "Check a policy file and say in words what its numbers mean, with a warning for what works and is probably not meant.\n\n" +
			"The limiter's settings, where they are not given, are those of talon serve: from the environment, --config, or the defaults.",
		Example: "  talon policy check policy.yaml\n  talon policy check policy.yaml --workers 16",
		Args:    oneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			c := calledWith(cmd.Flags())
			conf, found := c.read()
			if workers < 0 || workers > policy.MaxPeers {
				found = append(found, problem{fmt.Sprintf("--workers: %d is outside 0..%d", workers, policy.MaxPeers), true})
			}
			set, more := readPolicy(args[0])
			if found = append(found, more...); len(found) > 0 {
				return found
			}
			w := conf.judge(set)
			if workers > 0 {
				w.Workers = workers
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s: good: %s", args[0], policy.Explain(set, &w))
			return err
		},
	}
	bindSettings(cmd, policySettings...)
	cmd.Flags().IntVar(&workers, "workers", 0, "how many workers share the limits; 0 means as many as the file has peers, else one")
	cmd.ValidArgsFunction = policyFiles
	return cmd
}

// policySettings are the settings of talon serve that a policy's meaning depends on.
var policySettings = []string{"anonymous-tenant", "transfer-chunk"}

func newPolicyDiff() *cobra.Command {
	return &cobra.Command{
		Use:   "diff OLD NEW",
		Short: "Say what changes from one policy file to another, inherited or not",
		Long: "Say what changes from one policy file to another: what is in force, however it is written or inherited.\n" +
			"+ is new, - is gone, ~ is different. Nothing is printed where nothing changes.",
		Example: "  talon policy diff policy.yaml policy.new.yaml",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return errors.New("give two files: the policy as it is, and as it is to be")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			was, found := readPolicy(args[0])
			now, more := readPolicy(args[1])
			if found = append(found, more...); len(found) > 0 {
				return found
			}
			var b strings.Builder
			for _, change := range policy.Diff(was, now) {
				fmt.Fprintln(&b, change)
			}
			_, err := fmt.Fprint(cmd.OutOrStdout(), b.String())
			return err
		},
		ValidArgsFunction: policyFiles,
	}
}

func oneFile(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return errors.New("give one file, the policy")
	}
	return nil
}

// policyFiles offers YAML files to the shell.
func policyFiles(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return []string{"yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt
}

// readPolicy reads a policy file, or says all that is wrong with it.
func readPolicy(path string) (*policy.Set, problems) {
	text, err := readBounded(path, policy.MaxFile)
	if err != nil {
		return nil, problems{cannot("policy %w", err)}
	}
	set, err := policy.Parse(path, text)
	var wrong policy.Problems
	switch {
	case errors.As(err, &wrong):
		found := make(problems, len(wrong))
		for i, p := range wrong {
			found[i] = problemf("%v", p)
		}
		return nil, found
	case err != nil:
		return nil, problems{err}
	}
	return set, nil
}

// judge is what a policy is judged by here.
func (f *serveFlags) judge(set *policy.Set) policy.Worker {
	return policy.Worker{
		Limits: qos.DefaultConfig(), Chunk: int64(f.transferChunk), Workers: max(len(set.Peers), 1), Anonymous: f.anonymousTenant,
	}
}
