// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"fmt"
	"time"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/governing"
)

// Defaults are the settings for mixes that do not specify them, of the configuration of the controller.
func Defaults(r *controller.Rebalance) Settings {
	return Settings{
		Mode: Mode(r.Mode), MaxConcurrent: int(r.MaxConcurrent), MaxPerHour: int(r.MaxMovesPerHour),
		Stabilization: time.Duration(r.StabilizationSeconds) * time.Second,
		Provisioning:  Provisioning(r.Provisioning), Strategy: Strategy(r.Strategy),
	}
}

// For returns what a mix requests, and the receiver's values for what it does not specify. cm is its CapacityMix, nil for
// one that is set in annotations. The error names a window that is invalid: nothing may be decided then.
func (s Settings) For(p *governing.Mix, cm *v1alpha1.CapacityMix) (Settings, error) {
	if p != nil && p.Window != nil {
		return s.during(p.Window)
	}
	if cm == nil || cm.Spec.Rebalance == nil {
		return s, nil
	}
	s = s.with(cm.Spec.Rebalance)
	if cm.Spec.Rebalance.Paused {
		s.Paused = new(PauseOf(PausedMix, cm.Name, cm))
	}
	windows, err := windowsOf(cm.Spec.Rebalance)
	if err != nil {
		return s, fmt.Errorf("spec.rebalance.%w", err)
	}
	s.Windows = windows
	return s, nil
}

// with returns the values that a mix specifies, and the receiver's for the others.
func (s Settings) with(r *v1alpha1.RebalanceSpec) Settings {
	if r.Mode != "" {
		s.Mode = Mode(r.Mode)
	}
	if r.MaxConcurrent != nil {
		s.MaxConcurrent = int(*r.MaxConcurrent)
	}
	if r.MaxMovesPerHour != nil {
		s.MaxPerHour = int(*r.MaxMovesPerHour)
	}
	if r.StabilizationSeconds != nil {
		s.Stabilization = time.Duration(*r.StabilizationSeconds) * time.Second
	}
	if r.Strategy != "" {
		s.Strategy = Strategy(r.Strategy)
	}
	if r.Provisioning != "" {
		s.Provisioning = Provisioning(r.Provisioning)
	}
	return s
}

func windowsOf(r *v1alpha1.RebalanceSpec) (Windows, error) {
	list := make([]Window, 0, len(r.Windows))
	for _, w := range r.Windows {
		list = append(list, Window{Schedule: w.Schedule, Duration: time.Duration(w.DurationSeconds) * time.Second, TimeZone: w.TimeZone})
	}
	return ParseWindows(list)
}

// during returns the receiver's values with a window in annotations.
func (s Settings) during(w *governing.Window) (Settings, error) {
	duration, err := time.ParseDuration(w.Duration)
	if err != nil {
		return s, fmt.Errorf("annotations %s: duration: %q is not a duration such as 2h", w.Annotations, w.Duration)
	}
	opens, err := parseWindow(Window{Schedule: w.Schedule, Duration: duration})
	if err != nil {
		return s, fmt.Errorf("annotations %s: %w", w.Annotations, err)
	}
	s.Windows = Windows{windows: []window{opens}}
	return s, nil
}
