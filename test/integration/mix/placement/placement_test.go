// SPDX-License-Identifier: Apache-2.0

// Package placement_test places Deployments by their mix on a real control plane.
package placement_test

import (
	"os"
	"testing"

	"berth.dev/berth/test/specs"
	"berth.dev/berth/test/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m, testenv.Options{})) }

func TestEveryExpectedValueIsExactTheMomentAllPodsAreBound(t *testing.T) {
	specs.ExpectedValuesHold(testenv.New(t, testenv.Roomy()...))
}

func TestScalingIsExactAfterEveryStep(t *testing.T) {
	specs.ScalingIsExactAfterEveryStep(testenv.New(t, testenv.Roomy()...), 20)
}

func TestAMixInAnnotationsNeedsNoOtherObject(t *testing.T) {
	specs.AnnotationsAreEnough(testenv.New(t, testenv.Roomy()...))
}
