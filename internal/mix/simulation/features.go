// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/kubernetes/pkg/features"
)

// SetFeatureGates sets the feature gates of the scheduler, for all replays of this process. Call it before the first one.
func SetFeatureGates(gates map[string]bool) error {
	if err := utilfeature.DefaultMutableFeatureGate.SetFromMap(gates); err != nil {
		return fmt.Errorf("feature gates of the scheduler: %w", err)
	}
	return nil
}

// ComparesTolerations reports whether tolerations with the operators Gt and Lt count.
func ComparesTolerations() bool {
	return utilfeature.DefaultFeatureGate.Enabled(features.TaintTolerationComparisonOperators)
}
