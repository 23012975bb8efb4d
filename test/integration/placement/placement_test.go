// SPDX-License-Identifier: Apache-2.0

// Package placement_test places Deployments by their mix on a real control plane.
package placement_test

import (
	"os"
	"testing"

	"berth.dev/berth/test/specs"
	"berth.dev/berth/test/world"
)

func TestMain(m *testing.M) { os.Exit(world.Main(m, world.Options{})) }

func TestEveryExpectedValueIsExactTheMomentAllPodsAreBound(t *testing.T) {
	specs.ExpectedValuesHold(world.New(t, world.Roomy()...))
}

func TestScalingIsExactAfterEveryStep(t *testing.T) {
	specs.ScalingIsExactAfterEveryStep(world.New(t, world.Roomy()...), 20)
}

func TestAMixInAnnotationsNeedsNoOtherObject(t *testing.T) {
	specs.AnnotationsAreEnough(world.New(t, world.Roomy()...))
}
