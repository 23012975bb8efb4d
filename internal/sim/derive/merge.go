// SPDX-License-Identifier: Apache-2.0

package derive

import (
	"encoding/json"
	"fmt"

	"berth.dev/berth/internal/sim/scenario"
)

// mergeIfTooLarge merges equal workloads of a namespace if the file would be larger than a scenario may be. Otherwise, each keeps its name.
func (d *deriver) mergeIfTooLarge(out *Derived) error {
	fits, err := out.fits()
	if err != nil || fits {
		return err
	}
	before := len(out.Scenario.Workloads)
	if out.Scenario.Workloads, err = d.mergeEqual(out.Scenario.Workloads); err != nil {
		return err
	}
	if fits, err = out.fits(); err == nil && !fits {
		err = fmt.Errorf("the snapshot has %d workloads, of which %d are different, more than a scenario may have: take the snapshot of one namespace",
			before, len(out.Scenario.Workloads))
	}
	return err
}

// headroom is what the notes, and what a user adds, have of the largest file.
const headroom = scenario.MaxBytes / 16

// fits writes the body of the file, and reports whether it is within the bounds of a scenario.
func (d *Derived) fits() (is bool, err error) {
	d.body, err = d.text()
	return err == nil && len(d.body) <= scenario.MaxBytes-headroom && scenario.TooLarge(d.body) == nil, err
}

// mergeEqual merges workloads that differ by their names only.
func (d *deriver) mergeEqual(all []scenario.Workload) (list []scenario.Workload, err error) {
	at := map[string]int{}
	for i := range all {
		w := all[i]
		w.Name = ""
		key, err := json.Marshal(w)
		if err != nil {
			return nil, err
		}
		first, known := at[string(key)]
		if !known {
			at[string(key)] = len(list)
			list = append(list, all[i])
			continue
		}
		list[first].Copies = max(list[first].Copies, 1) + 1
		d.notes.add(merged, all[i].Namespace+"/"+all[i].Name+" is one of "+list[first].Name)
	}
	names := newUnique()
	for i := range list {
		if list[i].Copies <= 1 {
			names.name(list[i].Namespace, list[i].Name)
		}
	}
	for i := range list {
		if w := &list[i]; w.Copies > 1 {
			names.copies(w)
		}
	}
	return list, nil
}

// copies names a workload so that none of its copies has the name of another workload.
func (u *unique) copies(w *scenario.Workload) {
	base := cut(w.Name, longestBase)
	for n := 1; ; n++ {
		w.Name = base
		if n > 1 {
			w.Name = fmt.Sprintf("%s-c%d", base, n)
		}
		if u.free(w) {
			break
		}
	}
	for i := range int(w.Copies) {
		u.taken[w.Namespace+"/"+w.NameOf(i)] = true
	}
}

// longestBase leaves place for the number of a copy and that of the name.
const longestBase = 63 - 16

func (u *unique) free(w *scenario.Workload) bool {
	for i := range int(w.Copies) {
		if u.taken[w.Namespace+"/"+w.NameOf(i)] {
			return false
		}
	}
	return true
}
