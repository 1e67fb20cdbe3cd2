package load

import (
	"fmt"
	"io"
	"strings"
)

// WriteText prints a table with a line per stream, then errors, then why the run was refused.
func (r *Result) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%-10s %6s %11s %8s %9s %9s %9s %9s %10s %7s %9s %6s\n", "stream", "conns", "req/s", "GB/s",
		"p50 us", "p90 us", "p99 us", "p99.9 us", "max us", "errors", "in flight", "jain")
	for i := range r.Streams {
		s := &r.Streams[i]
		fmt.Fprintf(&b, "%-10s %6d %11.1f %8.3f %9.1f %9.1f %9.1f %9.1f %10.1f %7d %9.2f %6.3f\n", s.Name, s.Conns, s.Rate, s.GBps,
			s.P50US, s.P90US, s.P99US, s.P999US, s.MaxUS, s.Errors, s.InFlight, s.Fair)
		if s.Offered > 0 {
			fmt.Fprintf(&b, "  offered %.1f req/s, %d due and unsent at the end\n", s.Offered, s.Behind)
		}
		if s.RefusedRate+s.RetriedRate+s.GivenUpRate+s.WithheldRate > 0 {
			fmt.Fprintf(&b, "  refused %.1f/s (mean %.1f us), sent again %.1f/s, given up %.1f/s, kept back by the detector %.1f/s\n",
				s.RefusedRate, s.RefusedMean, s.RetriedRate, s.GivenUpRate, s.WithheldRate)
		}
		if s.Errors > 0 {
			fmt.Fprintf(&b, "  errors since the start%s\n", s.faultList())
		}
	}
	fmt.Fprintf(&b, "window %.3f s, %d threads, client idle %.0f %%\n", r.Seconds, r.Threads, 100*r.ClientIdle)
	if r.Server != nil {
		fmt.Fprintf(&b, "server %.2f us of CPU per request, %.0f %% of a core busy, %.0f %% waiting for one\n",
			r.Server.PerRequest, 100*r.Server.Busy, 100*r.Server.Waiting)
	}
	for _, why := range r.Refused {
		fmt.Fprintf(&b, "REFUSED %s\n", why)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// WriteConns prints a line per connection of every stream.
func (r *Result) WriteConns(w io.Writer) error {
	for i := range r.Streams {
		for j, c := range r.Streams[i].PerConn {
			if _, err := fmt.Fprintf(w, "%s conn %d: %d responses, %.3f MB/s\n", r.Streams[i].Name, j, c.Requests, c.MBps); err != nil {
				return err
			}
		}
	}
	return nil
}
