// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/environments/render"
)

const aboutEnvRestoreDatabase = `Puts a backup back in the place of what the database of an environment has. What was written since the backup is lost, so it does
nothing without --confirm but say whether it could, and what would go.

A dump is put back by a Job while the database runs: all of it in one transaction, or nothing. It waits for the transactions of others, so
scale the backend to 0 first. What is not in the dump stays; where that depends on something that is, the restore fails and names it.

A snapshot is put back while the environment is stopped: the claim is deleted, with its volume if the volume's reclaim policy is Delete, and
recreated from the snapshot. All is as it was then.`

const envRestoreDatabaseExamples = `  # A dump
  kubectl berth env database-backups shop
  kubectl berth env scale shop backend=0 --wait
  kubectl berth env restore-database shop --from database-20260131-093000 --confirm --wait

  # A snapshot
  kubectl berth env stop shop --wait
  kubectl berth env restore-database shop --from database-20260131-093000 --confirm
  kubectl berth env start shop --wait`

// replacePoll is how often a claim is made that goes just now. The controller evaluates again after 200 ms and would make an empty one.
const replacePoll = 50 * time.Millisecond

// envRestoreDatabase are the flags of restore-database.
type envRestoreDatabase struct {
	from        string
	replace     bool
	replacePoll time.Duration
	databaseWait
}

func newEnvRestoreDatabase(o *command.Options) *cobra.Command {
	f := &envRestoreDatabase{replacePoll: replacePoll, databaseWait: databaseWait{poll: envPoll}}
	cmd := anEnvironment(o, "restore-database", "Replace the data of an environment's database by a backup", aboutEnvRestoreDatabase, envRestoreDatabaseExamples,
		func(ctx context.Context, c client.Client, env *v1alpha1.Environment) error {
			return restoreDatabase(o, ctx, c, env, f)
		})
	cmd.Flags().StringVar(&f.from, "from", "", "The backup, one of those that database-backups shows.")
	cmd.Flags().BoolVar(&f.replace, "confirm", false, "Replace what the database has. What was written since the backup is lost.")
	_ = cmd.MarkFlagRequired("from") // fails for a flag that does not exist
	_ = cmd.RegisterFlagCompletionFunc("from", func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		return completeBackups(o, args)
	})
	f.flags(cmd, "End when the Job of a dump is done; with exit code 1 if it fails. That of a snapshot is always waited for.")
	return cmd
}

// completeBackups completes the name of a backup of the environment that is named.
func completeBackups(o *command.Options, args []string) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(context.Background(), command.CompletionTimeout) // a shell has no context
	defer cancel()
	namespace, c, err := o.Cluster()
	if err != nil || len(args) == 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	env, err := environmentNamed(ctx, c, namespace, args[0])
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	list, err := readBackups(o, ctx, c, env)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for i := range list.Backups {
		names = append(names, list.Backups[i].Name)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// restoreDatabase restores a backup. All that can be refused is, before anybody is requested to give up data.
func restoreDatabase(o *command.Options, ctx context.Context, c client.Client, env *v1alpha1.Environment, f *envRestoreDatabase) error {
	if err := mayBackUp(env); err != nil {
		return err
	}
	list, err := readBackups(o, ctx, c, env)
	if err != nil {
		return err
	}
	b, err := list.find(f.from)
	if err != nil {
		return err
	}
	if b.State != render.BackupReady {
		return fmt.Errorf("backup %s is %s, not Ready: %s", b.Name, b.State, b.Message)
	}
	var claim *corev1.PersistentVolumeClaim
	if b.Method == render.BackupSnapshot {
		claim, err = claimToReplace(ctx, c, env, b)
	} else {
		err = databaseServes(env)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", environmentName(env.Name), err)
	}
	if !f.replace {
		return fmt.Errorf("--confirm is not given: %s of %s would be replaced by %s of %s, and what was written since then would be lost",
			replacedText(env, claim), environmentName(env.Name), b.Name, b.Created.UTC().Format(time.RFC3339))
	}
	if claim != nil {
		return restoreSnapshot(o, ctx, c, env, claim, b.Name, f)
	}
	return restoreDump(o, ctx, c, env, b.Name, f)
}

// replacedText is what a restore replaces.
func replacedText(env *v1alpha1.Environment, claim *corev1.PersistentVolumeClaim) string {
	if claim != nil {
		return fmt.Sprintf("claim %s with all databases", claim.Name)
	}
	return fmt.Sprintf("database %q", render.DatabaseName(env.Spec.Stack.Database))
}

func restoreDump(o *command.Options, ctx context.Context, c client.Client, env *v1alpha1.Environment, backup string, f *envRestoreDatabase) error {
	job := render.RestoreJob(env, render.RestoreName(o.Now()), backup)
	u, err := asUnstructured(job)
	if err != nil {
		return err
	}
	if err := makeBackup(o, ctx, c, []*unstructured.Unstructured{u}, command.DryRunNone); err != nil {
		return err
	}
	key, mine := client.ObjectKeyFromObject(job), client.MatchingLabels{render.BackupOfLabel: env.Name}
	return waitForDatabase(o, ctx, &f.databaseWait, jobResource(job.Name), func(ctx context.Context) (render.Backup, error) {
		now := &batchv1.Job{}
		if err := c.Get(ctx, key, now); err != nil {
			return render.Backup{}, err
		}
		return render.BackupOfJob(now, backupPods(o, ctx, c, client.InNamespace(key.Namespace), mine)), nil
	})
}

// claimToReplace is the claim that a snapshot takes the place of, or an error if it may not be deleted: a deletion that has begun
// cannot be taken back.
func claimToReplace(ctx context.Context, c client.Client, env *v1alpha1.Environment, b *render.Backup) (*corev1.PersistentVolumeClaim, error) {
	phase := render.PhaseOf(env)
	if env.Spec.RunPolicy != v1alpha1.RunPolicyStopped || phase != v1alpha1.EnvironmentStopped || env.Status.ObservedGeneration < env.Generation {
		return nil, fmt.Errorf("status.phase is %s: a snapshot can be restored only while the environment is Stopped (kubectl berth env stop %s --wait)", phase, env.Name)
	}
	claim, reason, err := dataClaim(ctx, c, env)
	switch {
	case err != nil:
		return nil, err
	case reason != "":
		return nil, fmt.Errorf("no volume can be replaced, since %s", reason)
	}
	asked := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	if needed, err := resource.ParseQuantity(b.Size); err == nil && asked.Cmp(needed) < 0 {
		return nil, fmt.Errorf("claim %s requests %s, and snapshot %s needs %s: set spec.stack.database.container.resources.disk", claim.Name, asked.String(), b.Name, needed.String())
	}
	pods := &corev1.PodList{}
	if err := c.List(ctx, pods, client.InNamespace(claim.Namespace)); err != nil {
		return nil, fmt.Errorf("list pods of namespace %s: %w", claim.Namespace, err)
	}
	for i := range pods.Items {
		if p := &pods.Items[i]; mountsClaim(p, claim.Name) {
			return nil, fmt.Errorf("pod %s uses claim %s", p.Name, claim.Name)
		}
	}
	return claim, nil
}

// mountsClaim reports whether a pod that has not ended uses a claim.
func mountsClaim(p *corev1.Pod, claim string) bool {
	if p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
		return false
	}
	for i := range p.Spec.Volumes {
		if v := p.Spec.Volumes[i].PersistentVolumeClaim; v != nil && v.ClaimName == claim {
			return true
		}
	}
	return false
}
