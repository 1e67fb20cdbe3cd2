package main

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/talon-worker/talon/coordinator"
)

func newRing() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ring",
		Short: "Show and force the ring of workers that meter the limits",
		Args:  noArgs,
		RunE:  which("status", "force"),
	}
	cmd.AddCommand(newRingStatus(), newRingForce())
	return cmd
}

func newRingStatus() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the ring that a coordinator proposes, and what it replaces",
		Long: "Show the ring that a coordinator proposes, and what it replaces. Whether a worker acts in it is the worker's to say:\n" +
			"talon tenants -o json, or /api/v1/peers of its admin port.",
		Example: "  talon ring status --coordinator etcd://10.0.0.1:2379/talon",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withStore(cmd, func(ctx context.Context, s coordinatorStore) error {
				r, forced, err := s.Ring(ctx)
				if err != nil {
					return err
				}
				if output == "json" {
					return printJSON(cmd.OutOrStdout(), map[string]any{"ring": r, "forced": forced})
				}
				return ringTable(cmd.OutOrStdout(), &r, forced)
			})
		},
	}
	outputFlag(cmd, &output, "table", "json")
	bindSettings(cmd, storeSettings...)
	return cmd
}

func ringTable(w io.Writer, r *coordinator.Ring, forced uint64) error {
	if r.Epoch == 0 {
		_, err := fmt.Fprintln(w, "no ring: no peers are named, or no worker has enlisted")
		return err
	}
	note := ""
	if forced == r.Epoch {
		note = ", forced"
	}
	fmt.Fprintf(w, "epoch %d%s, %d members\n", r.Epoch, note, len(r.Members))
	for _, v := range r.Replaces {
		fmt.Fprintf(w, "replaces epoch %d, voters %v\n", v.Epoch, v.Voters)
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "WORKER\tADDRESS")
	for _, m := range r.Members {
		fmt.Fprintf(table, "%s\t%s\n", m.ID, m.Addr)
	}
	return table.Flush()
}

func newRingForce() *cobra.Command {
	var sure bool
	cmd := &cobra.Command{
		Use:   "force",
		Short: "Take the rings before the present one for over, when most of their voters are dead for good",
		Long: "Take the rings before the present one for over. A limit that has moved stays closed until most voters of the ring before have heard of the new one;\n" +
			"if they have died, that is never. Only force the ring when they are dead: one that lives, and has not heard of the new ring, goes on metering its limits beside\n" +
			"the new owner, and together they let through up to twice the rate.",
		Example: "  talon ring force --coordinator etcd://10.0.0.1:2379/talon --yes",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !sure {
				return fmt.Errorf("if a worker of an earlier ring is still alive, its limits have two owners, each granting the whole rate; say --yes if they are all dead")
			}
			return withStore(cmd, func(ctx context.Context, s coordinatorStore) error {
				epoch, err := s.Force(ctx)
				if err == nil {
					_, err = fmt.Fprintf(cmd.OutOrStdout(), "ring %d is forced: workers take the rings before it for over as soon as they hear of it\n", epoch)
				}
				return err
			})
		},
	}
	cmd.Flags().BoolVar(&sure, "yes", false, "the workers of the rings before are dead")
	bindSettings(cmd, storeSettings...)
	return cmd
}
