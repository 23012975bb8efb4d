// SPDX-License-Identifier: Apache-2.0

package mix

import (
	"bytes"
	"context"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/cli/printers"
)

// Numbers are those of a CapacityMix. MaxSpot is nil for none.
type Numbers struct {
	SpotPercent, MinOnDemand int32
	MaxSpot                  *int32
}

// WhatIf returns what a mix would do with other numbers, and warnings. It writes nothing.
func WhatIf(ctx context.Context, o *command.Options, key client.ObjectKey, n Numbers) (p *Plan, warnings []string, err error) {
	c, err := o.Client()
	if err != nil {
		return nil, nil, err
	}
	f := &planFlags{spot: n.SpotPercent, minOnDemand: n.MinOnDemand}
	if n.MaxSpot != nil {
		f.most = *n.MaxSpot
	}
	wanted, err := whatIf(ctx, c, key, f, func(flag string) bool { return flag != "max-spot" || n.MaxSpot != nil })
	if err != nil {
		return nil, nil, err
	}
	if n.MaxSpot == nil {
		wanted[0].without("maxSpot")
	}
	if err := wanted[0].validate(ctx, c); err != nil {
		return nil, nil, err
	}
	quiet, written := *o, &bytes.Buffer{}
	quiet.ErrOut = written
	if p, err = playPlan(ctx, &quiet, wanted, false); err != nil {
		return nil, nil, err
	}
	for line := range strings.Lines(written.String()) {
		warnings = append(warnings, strings.TrimSpace(line))
	}
	return p, warnings, nil
}

// Sentences are about the mixes, each by itself.
func (p *Plan) Sentences() (out []string) {
	for _, m := range p.Mixes {
		out = append(out, m.sentence())
	}
	return out
}

// Tables are those that have rows: workloads, moves, and replicas that are not moved. Their first column is the namespace.
func (p *Plan) Tables() (out []*printers.Table) {
	for _, t := range []*printers.Table{p.workloadTable(), p.moveTable(), p.blockedTable()} {
		if len(t.Rows) > 0 {
			out = append(out, t)
		}
	}
	return out
}

// Remarks are the notes as sentences. The last one sums up the plan.
func (p *Plan) Remarks() (out []string) {
	for _, n := range p.Notes {
		out = append(out, printers.Upper(n)+".")
	}
	return append(out, p.summary())
}
