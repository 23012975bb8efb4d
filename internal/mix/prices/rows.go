// SPDX-License-Identifier: Apache-2.0

package prices

import (
	"cmp"
	"slices"
	"strings"
)

// rows are the rows of a table. A map of the 49,000 embedded ones takes 8 MB, these take a fifth.
type rows struct {
	types, regions names
	// all are sorted by their keys once the table is complete.
	all []keyed
}

// names numbers names.
type names map[string]uint32

// number is that of a name, which gets one if it has none.
func (n names) number(name string) uint32 {
	number, has := n[name]
	if !has {
		number = uint32(len(n)) //nolint:gosec // a file has no 2^32 names
		n[strings.Clone(name)] = number
	}
	return number
}

// keyed is a row with the numbers of its type and its region in one key.
type keyed struct {
	key uint64
	row
}

func newRows() rows { return rows{types: names{}, regions: names{}} }

// add adds a row at the end: sort must follow.
func (r *rows) add(at place, of row) (key uint64) {
	key = uint64(r.types.number(at.instanceType))<<32 | uint64(r.regions.number(at.region))
	r.all = append(r.all, keyed{key, of})
	return key
}

func (r *rows) sort() {
	slices.SortFunc(r.all, func(a, b keyed) int { return cmp.Compare(a.key, b.key) })
	r.all = slices.Clip(slices.Clone(r.all))
}

// at returns the row of a place, without a price if there is none.
func (r *rows) at(p place) row {
	instanceType, known := r.types[p.instanceType]
	region, has := r.regions[p.region]
	if !known || !has {
		return row{}
	}
	i, found := slices.BinarySearchFunc(r.all, uint64(instanceType)<<32|uint64(region), func(k keyed, key uint64) int {
		return cmp.Compare(k.key, key)
	})
	if !found {
		return row{}
	}
	return r.all[i].row
}
