// SPDX-License-Identifier: Apache-2.0

package replay

import "berth.dev/berth/apis/config"

// LimitArgs returns the arguments of the plugin ResourceLimit in the profile of a
// scheduler name, false where that profile does not enable it or there is none.
func (p *Profile) LimitArgs(schedulerName string) (*config.ResourceLimitArgs, bool) {
	args := p.replays[schedulerName].limits
	return args, args != nil
}
