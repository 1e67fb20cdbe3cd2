package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/signal"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/talon-worker/talon/admin"
	"github.com/talon-worker/talon/policy"
	"github.com/talon-worker/talon/qos"
)

// maxTenancy bounds what is read of a worker's answer: ten thousand tenants with six limits each.
const maxTenancy = 64 << 20

// askFor bounds one question to the admin port.
const askFor = 10 * time.Second

func newTenants() *cobra.Command {
	var watch bool
	var output string
	cmd := &cobra.Command{
		Use:   "tenants",
		Short: "Show the tenants of a running worker: what each does, has done and may do",
		Long: "Show the tenants of a running worker, from its admin port: connections, requests here and waiting, what was answered, sent and refused since start;\n" +
			"and for each limit what the cluster wants of it in this second, if this worker meters it. With -w, once a second.",
		Example: "  talon tenants\n  talon tenants -w\n  talon tenants -o json --admin 10.0.0.7:9090",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			conf, found := calledWith(cmd.Flags()).read()
			if len(found) > 0 {
				return found
			}
			if !slices.Contains(tenantOutputs, output) {
				return fmt.Errorf("--output: %q is none of %s", output, strings.Join(tenantOutputs, ", "))
			}
			if conf.admin == "" {
				return problemAt(conf.from["admin"], "admin", errors.New("there is no admin port to ask"))
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), unix.SIGINT, unix.SIGTERM)
			defer stop()
			v := tenantView{out: cmd.OutOrStdout(), json: output == "json", clear: watch && isTerminal(cmd.OutOrStdout()), ask: func(ctx context.Context) ([]byte, error) {
				return askAdmin(ctx, conf.admin, "/api/v1/tenants")
			}}
			if !watch {
				return v.show(ctx)
			}
			ticker := time.NewTicker(time.Second)
			defer ticker.Stop()
			return v.watch(ctx, ticker.C)
		},
	}
	bindSettings(cmd, "admin")
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "once a second, until it is interrupted")
	cmd.Flags().StringVarP(&output, "output", "o", "table", "table or json")
	completeWords(cmd, "output", tenantOutputs)
	return cmd
}

var tenantOutputs = []string{"table", "json"}

// askAdmin asks a worker's admin port.
func askAdmin(ctx context.Context, addr, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+path, nil)
	if err != nil {
		return nil, cannot("--admin: %s is no address; give host:port", addr)
	}
	res, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		return nil, cannot("no answer from the admin port: %w; is talon serve running there? --admin names another", err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxTenancy+1))
	switch {
	case err != nil:
		return nil, cannot("the admin port at %s broke off: %w", addr, err)
	case len(body) > maxTenancy:
		return nil, cannot("the admin port at %s answers more than %s", addr, policy.FormatSize(maxTenancy))
	case res.StatusCode != http.StatusOK:
		return nil, cannot("the admin port at %s answers %s: %.200s", addr, res.Status, body)
	}
	return body, nil
}

// tenantView shows what a worker answers.
type tenantView struct {
	ask   func(context.Context) ([]byte, error)
	out   io.Writer
	json  bool
	clear bool // the terminal, before each table
}

// watch shows the tenants now and at every tick, until ctx ends. What fails is shown, and asked again.
func (v *tenantView) watch(ctx context.Context, ticks <-chan time.Time) error {
	for {
		if err := v.show(ctx); err != nil && ctx.Err() == nil {
			if _, err := fmt.Fprintln(v.out, err); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticks:
		}
	}
}

func (v *tenantView) show(ctx context.Context) error {
	body, err := v.ask(ctx)
	if err != nil {
		return err
	}
	if v.json {
		_, err = v.out.Write(body)
		return err
	}
	var t admin.Tenancy
	if err := json.Unmarshal(body, &t); err != nil {
		return cannot("the admin port does not answer as one of this version: %w", err)
	}
	var b strings.Builder
	if v.clear {
		b.WriteString("\x1b[H\x1b[J") // home, erase to the end
	}
	tenantTable(&b, &t)
	_, err = io.WriteString(v.out, b.String())
	return err
}

// tenantTable writes a line for each tenant.
func tenantTable(w io.Writer, t *admin.Tenancy) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "TENANT\tWEIGHT\tCONNS\tINFLIGHT\tQUEUED\tREQUESTS\tSENT\tREFUSED\tREADS/S\tBYTES/S\tNOTE")
	for i := range t.Tenants {
		one := &t.Tenants[i]
		var denied uint64
		for _, reasons := range one.Denied {
			for _, n := range reasons {
				denied += n
			}
		}
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\t%d\t%s\t%d\t%s\t%s\t%s\n", one.ID, one.Weight, one.Connections, one.Inflight, one.Queued,
			one.Requests, policy.RoughSize(int64(one.SentBytes)), denied, limitCell(one, qos.ReadIOPS), limitCell(one, qos.ClientEgressBytes), tenantNote(one))
	}
	_ = table.Flush() // to a builder
}

// limitCell is what the cluster wants of a limit and may have: "812 of 20000", "-" where another worker knows.
func limitCell(t *admin.Tenant, m qos.Metric) string {
	i := slices.IndexFunc(t.Limits, func(l admin.Limit) bool { return l.Metric == m.String() })
	if i < 0 {
		return "-"
	}
	l, text := &t.Limits[i], func(n int64) string {
		if m.Requests() {
			return fmt.Sprint(n)
		}
		return policy.RoughSize(n)
	}
	wanted, may := "-", "no limit"
	if l.Cluster != nil {
		wanted = text(l.Cluster.Wanted)
	}
	if l.Limited {
		may = text(l.Rate)
	}
	return wanted + " of " + may
}

// tenantNote is what somebody should look at.
func tenantNote(t *admin.Tenant) string {
	var notes []string
	for _, l := range t.Limits {
		if l.Mode == "shadow" {
			notes = append(notes, l.Metric+" in shadow")
		}
		if c := l.Cluster; c != nil {
			if c.BanLeft > 0 {
				notes = append(notes, fmt.Sprintf("banned by %s for %.1fs", l.Metric, c.BanLeft))
			} else if c.Violator {
				notes = append(notes, "violates "+l.Metric)
			} else if c.Exhausted && l.Limited {
				notes = append(notes, l.Metric+" exhausted")
			}
		}
	}
	return strings.Join(notes, ", ")
}
