// SPDX-License-Identifier: Apache-2.0

package prices

// Band is how often spot nodes of the type of a node are interrupted in a month, from 1, below 5 %, to 5, above 20 %, with its source.
// It is 0 where no table has it.
func (b *Book) Band(n *Node) (band int, of *Source) {
	for _, e := range b.entries {
		t, is := e.source.(*Table)
		if !is {
			continue
		}
		if r := t.rows.at(place{nameInTable(n.InstanceType), n.Region}); r.band > 0 {
			return r.band, e.of
		}
	}
	return 0, nil
}
