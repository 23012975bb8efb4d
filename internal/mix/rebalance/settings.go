// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"fmt"
	"time"

	"berth.dev/berth/apis/v1alpha1"
)

// For returns what a mix requests, and the receiver's values for what it does
// not say. cm may be nil. The error names a window that cannot be read: nothing
// may be decided then.
func (s Settings) For(cm *v1alpha1.CapacityMix) (Settings, error) {
	if cm == nil || cm.Spec.Rebalance == nil {
		return s, nil
	}
	r := cm.Spec.Rebalance
	if r.Mode != "" {
		s.Mode = Mode(r.Mode)
	}
	if r.MaxConcurrent != nil {
		s.MaxConcurrent = int(*r.MaxConcurrent)
	}
	if r.StabilizationSeconds != nil {
		s.Stabilization = time.Duration(*r.StabilizationSeconds) * time.Second
	}
	if r.Provisioning != "" {
		s.Provisioning = Provisioning(r.Provisioning)
	}
	list := make([]Window, 0, len(r.Windows))
	for _, w := range r.Windows {
		list = append(list, Window{Schedule: w.Schedule, Duration: time.Duration(w.DurationSeconds) * time.Second, TimeZone: w.TimeZone})
	}
	windows, err := ParseWindows(list)
	if err != nil {
		return s, fmt.Errorf("spec.rebalance.%w", err)
	}
	s.Windows = windows
	return s, nil
}
