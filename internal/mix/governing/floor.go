// SPDX-License-Identifier: Apache-2.0

package governing

import "berth.dev/berth/internal/kube/hash"

// floorDigits is the length of the label of a floor: enough for the groups of a namespace.
const floorDigits = 16

// FloorLabel is the value of the label berth.dev/floor on the replicas of a group on on-demand. It is unique in the namespace.
func FloorLabel(key GroupKey) string { return hash.Of(key.ID, floorDigits) }
