// SPDX-License-Identifier: Apache-2.0

package kind_test

import (
	"testing"

	"berth.dev/berth/test/specs"
	"berth.dev/berth/test/world"
)

func TestEveryExpectedValueIsExact(t *testing.T) { specs.ExpectedValuesHold(world.New(t)) }

func TestScalingIsExactAfterEveryStep(t *testing.T) {
	specs.ScalingIsExactAfterEveryStep(world.New(t), 8)
}

func TestAMixInAnnotationsNeedsNoOtherObject(t *testing.T) { specs.AnnotationsAreEnough(world.New(t)) }

func TestARollingUpdateIsExact(t *testing.T) { specs.ARollingUpdateIsExact(world.New(t), 10, 70, 3) }

func TestSpotComesBack(t *testing.T) {
	w := world.New(t)
	specs.SpotComesBack(w, nodesOf(w, "spot")...)
}

func TestASizeIsEnforced(t *testing.T) { specs.ASizeIsEnforced(world.New(t)) }
