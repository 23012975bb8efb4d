// SPDX-License-Identifier: Apache-2.0

package fallback

import "time"

// Credits let the successors of pods that waited for spot without success go to on-demand, one for each. The next pod of the same group
// uses a credit, whatever its name is and whichever nodes it may use: a workload whose template changes, or whose pods get a zone each,
// does not wait again and again. The zero value has none. It is not safe for concurrent use.
type Credits struct {
	groups map[string]credit
	// used are the credits that pods used which are not observed without their gate yet, by ID of the pod.
	used map[string]use
}

// credit is for some pods of a group, until a time.
type credit struct {
	// missed are the pods for which no spot node had room. blocked are those that waited beside room: their successors would, too.
	missed, blocked int
	until           time.Time
}

// use is what one pod used of a credit.
type use struct {
	group string
	credit
}

// Add records a pod that waited without success, and that will have a successor before a time.
func (c *Credits) Add(now time.Time, group string, until time.Time, blocked bool) {
	one := credit{missed: 1, until: until}
	if blocked {
		one = credit{blocked: 1, until: until}
	}
	c.add(now, group, one)
}

func (c *Credits) add(now time.Time, group string, more credit) {
	sum := c.of(now, group)
	sum.missed += more.missed
	sum.blocked += more.blocked
	sum.until = latest(sum.until, more.until)
	c.set(group, sum)
}

// of is the credit of a group that has not expired.
func (c *Credits) of(now time.Time, group string) credit {
	if have := c.groups[group]; now.Before(have.until) {
		return have
	}
	return credit{}
}

func (c *Credits) set(group string, have credit) {
	if have.missed+have.blocked == 0 {
		delete(c.groups, group)
		return
	}
	if c.groups == nil {
		c.groups = map[string]credit{}
	}
	c.groups[group] = have
}

// Missed reports whether a pod of a group is the successor of one for which no spot node had room, as far as is known.
func (c *Credits) Missed(now time.Time, group string) bool { return c.of(now, group).missed > 0 }

// take uses a credit for a pod. ok is false if there is none, or if the pod does not need it: a spot node has room for it now.
func (c *Credits) take(now time.Time, pod Pod, place bool) (until time.Time, ok bool) {
	have := c.of(now, pod.Group)
	one := credit{until: have.until}
	switch {
	case have.blocked > 0:
		one.blocked = 1
	case have.missed > 0:
		one.missed = 1
	default:
		return time.Time{}, false
	}
	have.blocked -= one.blocked
	have.missed -= one.missed
	c.set(pod.Group, have)
	if c.used == nil {
		c.used = map[string]use{}
	}
	c.used[pod.ID] = use{pod.Group, one}
	return have.until, one.blocked > 0 || !place
}

// withdraw gives back what a pod used.
func (c *Credits) withdraw(now time.Time, id string) {
	u, there := c.used[id]
	delete(c.used, id)
	if there && now.Before(u.until) {
		c.add(now, u.group, u.credit)
	}
}

// Gone records that what a pod used is used up: its gate is removed, or it is deleted.
func (c *Credits) Gone(id string) { delete(c.used, id) }

// Expire drops the credits that no pod used in time.
func (c *Credits) Expire(now time.Time) {
	for group, have := range c.groups {
		if !now.Before(have.until) {
			delete(c.groups, group)
		}
	}
}
