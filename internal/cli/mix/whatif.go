// SPDX-License-Identifier: Apache-2.0

package mix

import (
	"bytes"
	"context"
	"strings"

	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/cli/printers"
	"berth.dev/berth/internal/console"
)

// Planner makes the plans of the console, as the command plan does.
func Planner(o *command.Options) console.Planner {
	return func(ctx context.Context, q console.Question) (*console.Plan, error) {
		_, c, err := o.Cluster()
		if err != nil {
			return nil, err
		}
		f := &planFlags{spot: q.SpotPercent, minOnDemand: q.MinOnDemand}
		if q.MaxSpot != nil {
			f.most = *q.MaxSpot
		}
		wanted, err := whatIf(ctx, c, q.ObjectKey, f, func(flag string) bool { return flag != "max-spot" || q.MaxSpot != nil })
		if err != nil {
			return nil, err
		}
		if q.MaxSpot == nil {
			wanted[0].without("maxSpot")
		}
		if err := wanted[0].validate(ctx, c); err != nil {
			return nil, err
		}
		quiet, warnings := *o, &bytes.Buffer{}
		quiet.ErrOut = warnings
		p, err := playPlan(ctx, &quiet, wanted, false)
		if err != nil {
			return nil, err
		}
		out := p.page()
		for line := range strings.Lines(warnings.String()) {
			out.Notes = append(out.Notes, strings.TrimSpace(line))
		}
		return out, nil
	}
}

// page is the plan as the console shows it.
func (p *Plan) page() *console.Plan {
	out := &console.Plan{}
	for _, m := range p.Mixes {
		out.Sentences = append(out.Sentences, m.sentence())
	}
	for _, t := range []*printers.Table{p.workloadTable(), p.moveTable(), p.blockedTable()} {
		if len(t.Rows) == 0 {
			continue
		}
		shown := console.PlanTable{Header: t.Header[1:]} // all are in the namespace of the mix
		for _, row := range t.Rows {
			shown.Rows = append(shown.Rows, row[1:])
		}
		out.Tables = append(out.Tables, shown)
	}
	for _, n := range p.Notes {
		out.Notes = append(out.Notes, printers.Upper(n)+".")
	}
	out.Notes = append(out.Notes, p.summary())
	return out
}
