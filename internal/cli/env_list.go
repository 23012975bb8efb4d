// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"berth.dev/berth/apis/v1alpha1"
)

func (o *options) showEnvironments(e *Environments, namespace string) error {
	if o.output == asName {
		for i := range e.Environments {
			fmt.Fprintln(o.Out, environmentName(e.Environments[i].Name))
		}
		return nil
	}
	if done, err := o.printed(e); done {
		return err
	}
	if len(e.Environments) == 0 {
		where := "any namespace"
		if namespace != "" {
			where = "namespace " + namespace
		}
		fmt.Fprintf(o.ErrOut, "No environments found in %s.\n", where)
		return nil
	}
	t := &table{header: []string{"NAMESPACE", "NAME", "STACK", "VERSION", "PHASE", "READY", "AGE"}}
	if o.output == asWide {
		t.header = append(t.header, "DISPLAY-NAME", "RUNS-IN", "REVISION", "LABELS", "CONTROLLER", "MESSAGE")
	}
	for i := range e.Environments {
		s := &e.Environments[i]
		t.add(s.Namespace, s.Name, s.Stack, s.Version, string(s.Phase), s.Ready, age(o.now(), s.Created.Time),
			s.DisplayName, s.RunsIn, number(s.Revision), labelText(s.Labels), string(s.Controller), s.Message)
	}
	if err := t.write(o.Out, namespace == ""); err != nil {
		return err
	}
	for _, n := range e.Notes {
		o.warn("%s", n)
	}
	return nil
}

// environmentName is how kubectl names an environment.
func environmentName(name string) string {
	return "environment." + v1alpha1.GroupName + "/" + name
}

// labelText is "a=b,c=d".
func labelText(labels map[string]string) string {
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		parts = append(parts, key+"="+labels[key])
	}
	return strings.Join(parts, ",")
}
