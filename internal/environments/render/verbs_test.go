// SPDX-License-Identifier: Apache-2.0

package render

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/v1alpha1"
)

var now = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)

func TestAnEnvironmentIsStartedStoppedAndRestarted(t *testing.T) {
	stopped, running := v1alpha1.RunPolicyStopped, v1alpha1.RunPolicyRunning
	stop := func(e *v1alpha1.Environment) error { return Stop(e, false) }
	stopNow := func(e *v1alpha1.Environment) error { return Stop(e, true) }
	restart := func(e *v1alpha1.Environment) error { return Restart(e, now) }
	for name, tc := range map[string]struct {
		run   v1alpha1.RunPolicy
		phase v1alpha1.EnvironmentPhase
		force bool
		do    func(*v1alpha1.Environment) error
		want  v1alpha1.RunPolicy
		hard  bool
		err   string
	}{
		"start":                   {stopped, v1alpha1.EnvironmentStopped, true, Start, running, false, ""},
		"start while it stops":    {stopped, v1alpha1.EnvironmentStopping, false, Start, running, false, ""},
		"start what runs":         {running, v1alpha1.EnvironmentRunning, false, Start, "", false, "cannot start an environment that is Running"},
		"start what is new":       {running, "", false, Start, running, false, ""},
		"start what starts":       {running, v1alpha1.EnvironmentCreating, false, Start, running, false, ""},
		"start twice":             {running, v1alpha1.EnvironmentStopped, false, Start, running, false, ""},
		"start what failed":       {running, v1alpha1.EnvironmentFailed, false, Start, "", false, "cannot start an environment that is Failed"},
		"stop":                    {running, v1alpha1.EnvironmentRunning, false, stop, stopped, false, ""},
		"stop at once":            {running, v1alpha1.EnvironmentCreating, false, stopNow, stopped, true, ""},
		"hurry":                   {stopped, v1alpha1.EnvironmentStopping, false, stopNow, stopped, true, ""},
		"no need to hurry":        {stopped, v1alpha1.EnvironmentStopped, false, stopNow, "", false, "cannot stop an environment that is Stopped"},
		"stop twice":              {stopped, v1alpha1.EnvironmentStopping, false, stop, "", false, "cannot stop an environment that is Stopping"},
		"restart":                 {running, v1alpha1.EnvironmentRunning, false, restart, running, false, ""},
		"restart what starts":     {running, v1alpha1.EnvironmentCreating, false, restart, running, false, ""},
		"restart what is stopped": {stopped, v1alpha1.EnvironmentStopped, true, restart, running, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			e := &v1alpha1.Environment{}
			e.Spec.RunPolicy, e.Spec.ForceStop, e.Status.Phase = tc.run, tc.force, tc.phase
			before := e.DeepCopy()
			err := tc.do(e)
			if tc.err != "" {
				require.EqualError(t, err, tc.err)
				assert.Equal(t, before, e)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, tc.want, e.Spec.RunPolicy)
			assert.Equal(t, tc.hard, e.Spec.ForceStop)
			e.DeletionTimestamp = new(metav1.Now())
			require.ErrorContains(t, tc.do(e), "Deleting")
		})
	}
}

func TestEveryRestartIsAnother(t *testing.T) {
	e := &v1alpha1.Environment{}
	require.NoError(t, Restart(e, now))
	assert.True(t, e.Spec.RestartedAt.Time.Equal(now))
	require.NoError(t, Restart(e, now.Add(time.Millisecond)))
	assert.True(t, e.Spec.RestartedAt.Time.Equal(now.Add(time.Second)))
	require.NoError(t, Restart(e, now.Add(-time.Hour)))
	assert.True(t, e.Spec.RestartedAt.Time.Equal(now.Add(2*time.Second)), "by a clock that is late too")
}

// An unknown user's change does not keep the name of the user who changed it before.
func TestAnUnknownActorReplacesTheFormerOne(t *testing.T) {
	e := &v1alpha1.Environment{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1alpha1.ActorAnnotation: "alice"}}}
	Sign(e, "")
	assert.NotContains(t, e.Annotations, v1alpha1.ActorAnnotation)
	e.Annotations = nil
	Sign(e, "bob")
	assert.Equal(t, "bob", e.Annotations[v1alpha1.ActorAnnotation])
}
