// SPDX-License-Identifier: Apache-2.0

package kind_test

import (
	"testing"

	"berth.dev/berth/test/specs"
	"berth.dev/berth/test/testenv"
)

func TestEveryExpectedValueIsExact(t *testing.T) { specs.ExpectedValuesHold(testenv.New(t)) }

func TestScalingIsExactAfterEveryStep(t *testing.T) {
	specs.ScalingIsExactAfterEveryStep(testenv.New(t), 8)
}

func TestAMixInAnnotationsNeedsNoOtherObject(t *testing.T) {
	specs.AnnotationsAreEnough(testenv.New(t))
}

func TestARollingUpdateIsExact(t *testing.T) { specs.ARollingUpdateIsExact(testenv.New(t), 10, 70, 3) }

func TestReplicasReturnToSpot(t *testing.T) {
	w := testenv.New(t)
	specs.SpotComesBack(w, nodesOf(w, "spot")...)
}

func TestASizeIsEnforced(t *testing.T) { specs.ASizeIsEnforced(testenv.New(t)) }
