package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/talon-worker/talon/policy"
	"github.com/talon-worker/talon/qos"
)

func newPolicy() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "policy",
		Short: "Check and compare policy files, and change the policy that a coordinator keeps",
		Args:  noArgs,
		RunE:  which("check", "diff", "get", "set", "rm", "list", "history", "rollback"),
	}
	cmd.AddCommand(newPolicyCheck(), newPolicyDiff(), newPolicyGet(), newPolicySet(), newPolicyRm(), newPolicyList(), newPolicyHistory(), newPolicyRollback())
	return cmd
}

// which is what a command answers that is only a group of others.
func which(commands ...string) func(*cobra.Command, []string) error {
	return func(*cobra.Command, []string) error {
		last := len(commands) - 1
		if last == 0 {
			return fmt.Errorf("say which: %s", commands[0])
		}
		return fmt.Errorf("say which: %s or %s", strings.Join(commands[:last], ", "), commands[last])
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
			if found = conf.fits(args[0], set, conf.leftOpen()); len(found) > 0 {
				return found
			}
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
var policySettings = append([]string{"anonymous-tenant", "transfer-chunk", "egress-rate", "tenant-weight", "tenant-queue-deadline", "tenant-queue-target"}, limiterSettings...)

// limiterSettings are those of the limiter.
var limiterSettings = []string{"sync-interval", "report-iops", "report-bytes", "snapshot-ttl", "advance", "bootstrap", "ring-confirm"}

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
	return parsePolicy(path, text)
}

func parsePolicy(path string, text []byte) (*policy.Set, problems) {
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
		Limits: f.limits(), Chunk: int64(f.transferChunk), Workers: max(len(set.Peers), 1), Anonymous: f.anonymousTenant,
	}
}

// fits lists what in a policy this worker, with these defaults, cannot do.
func (f *serveFlags) fits(path string, set *policy.Set, open tenantDefaults) (found problems) {
	say := func(format string, args ...any) {
		found = append(found, problemf("%s: %s", path, fmt.Sprintf(format, args...)))
	}
	chunk, weights := int64(f.transferChunk), int64(0)
	for i := range set.Tenants {
		weights += int64(unlessOpen(set.Tenants[i].Weight, open.weight))
	}
	for i := range set.Tenants {
		t := &set.Tenants[i]
		deadline, target := unlessOpen(t.Queue.Deadline, open.queueDeadline), unlessOpen(t.Queue.Target, open.queueTarget)
		if target >= deadline {
			say("tenant %s: the queue's target, %v, is not under its deadline, %v; set both", t.ID, target, deadline)
		}
		if l := t.Limit(qos.ClientEgressBytes); l != nil && l.Limits() && l.Burst < chunk {
			say("tenant %s: client_egress_bytes: burst %s is under one chunk (transfer-chunk %s): raise the one or lower the other",
				t.ID, policy.FormatSize(l.Burst), policy.FormatSize(chunk))
		}
		if f.egressRate > 0 {
			share := float64(f.egressRate) * float64(unlessOpen(t.Weight, open.weight)) / float64(weights)
			if turn := time.Duration(float64(chunk) / share * 1e9); turn > deadline {
				say("tenant %s: its share of egress-rate, %s/s, sends one chunk of %s in %v, longer than the queue's deadline, %v",
					t.ID, policy.FormatSize(int64(share)), policy.FormatSize(chunk), turn.Round(time.Millisecond), deadline)
			}
		}
		if len(found) > 100 {
			say("and so on")
			return found
		}
	}
	return found
}
