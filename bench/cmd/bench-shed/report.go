package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"

	"github.com/talon-worker/talon/bench/bed"
)

func (s *shed) report(ctx context.Context) error {
	sheet := bed.Describe(s.o.Hygiene)
	text := fmt.Sprintf("%sserver on core %d, client on core %d; %d rounds of %gs after %gs; aggressor limited to %d read_iops, banned for %gs, %d connections, %d retries; victim %d connections, closed loop; 4 KiB objects\n",
		sheet, s.o.ServerCPU, s.o.ClientCPU, s.o.Rounds, s.o.Window, s.o.Warmup, s.o.Limit, s.o.Ban, aggressorConns, tries, victimConns)
	fmt.Print(text)
	for round := range s.o.Rounds {
		if err := s.alone(ctx); err != nil {
			return err
		}
		for _, i := range bed.Order(len(s.cells), round) {
			if err := s.round(ctx, s.cells[i]); err != nil {
				return fmt.Errorf("%s, %s, %gx: %w", s.cells[i].Arm, s.cells[i].Client, s.cells[i].Times, err)
			}
		}
	}
	part := s.table()
	fmt.Print(part)
	return s.o.Record("shed", sheet, text+part, map[string]any{"machine": sheet, "settings": s.o,
		"alone_req_per_s": s.aloneRate, "alone_p99_us": s.aloneP99, "alone_us_per_request": s.aloneCost, "cells": s.cells})
}

func (s *shed) table() string {
	rate, p99 := bed.Median(s.aloneRate), bed.Median(s.aloneP99)
	var b strings.Builder
	fmt.Fprintf(&b, "\nvictim alone: %.0f req/s, p99 %.0f us, %.1f us of server CPU per request\n", rate, p99, bed.Median(s.aloneCost))
	fmt.Fprintf(&b, "\n%-6s %-9s %6s %10s %9s %9s %9s %10s %10s %10s %10s %9s\n", "arm", "client", "times", "victim/s", "of alone", "p99 us", "good/s",
		"in vain/s", "retries/s", "withheld/s", "us/answer", "back in s")
	for _, c := range s.cells {
		fmt.Fprintf(&b, "%-6s %-9s %6.1f %10.0f %9.2f %9.0f %9.0f %10.0f %10.0f %10.0f %10s %9s\n", c.Arm, c.Client, c.Times, bed.Median(c.VictimRate),
			bed.Median(c.VictimRate)/rate, bed.Median(c.VictimP99), bed.Median(c.Good), bed.Median(c.Vain), bed.Median(c.Again), bed.Median(c.Withheld),
			dash("%.1f", bed.Median(c.Cost)), dash("%.2f", bed.Median(c.Recovery)))
	}
	return b.String()
}

func dash(format string, v float64) string {
	if math.IsNaN(v) {
		return "-"
	}
	return fmt.Sprintf(format, v)
}

// MarshalJSON writes a figure that is missing as null.
func (c cell) MarshalJSON() ([]byte, error) {
	m := map[string]any{"arm": c.Arm, "client": c.Client, "times": c.Times}
	for name, v := range map[string][]float64{"victim_req_per_s": c.VictimRate, "victim_p99_us": c.VictimP99, "aggressor_good_per_s": c.Good,
		"aggressor_in_vain_per_s": c.Vain, "aggressor_retries_per_s": c.Again, "aggressor_withheld_per_s": c.Withheld, "us_per_answer": c.Cost, "recovery_s": c.Recovery} {
		out := make([]*float64, len(v))
		for i := range v {
			if !math.IsNaN(v[i]) {
				out[i] = &v[i]
			}
		}
		m[name] = out
	}
	return json.Marshal(m)
}
