// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/cli/printers"
	"berth.dev/berth/internal/environments/render"
)

const aboutEnvBackupDatabase = `Backs up the data of an environment's database, where the environment runs, and says how. "snapshot" is a VolumeSnapshot of its
volume: made in no time, as if the power had gone just then, and of use in this cluster only. "dump" is a Job that has pg_dump write to
the claim database-backups, which is made if it is not there; it needs a database that runs, and can be read by any PostgreSQL that
is not older. "auto" is a snapshot if the driver of the volume has a VolumeSnapshotClass, else a dump.

Whoever can read the claim or the snapshot can read all that is in the database. Both are in the namespace that the environment runs in, and
go with it: copy elsewhere what should outlive the environment. Specs and Secrets are kept by kubectl berth env backup.`

const envBackupDatabaseExamples = `  kubectl berth env backup-database shop --wait

  # A dump, whatever the volume can do, on a new claim of 50 GiB
  kubectl berth env backup-database shop --method dump --size 50Gi --wait

  # What would be made?
  kubectl berth env backup-database shop --dry-run=client -o yaml`

// envBackupDatabase are the flags of backup-database.
type envBackupDatabase struct {
	method, size, class, dryRun string
	// sized says that the size or the class was requested.
	sized bool
	databaseWait
}

func newEnvBackupDatabase(o *command.Options) *cobra.Command {
	f := &envBackupDatabase{databaseWait: databaseWait{poll: envPoll}}
	methods := []string{string(render.BackupAuto), string(render.BackupSnapshot), string(render.BackupDump)}
	cmd := anEnvironment(o, "backup-database", "Back up the data of an environment's database", aboutEnvBackupDatabase, envBackupDatabaseExamples,
		func(ctx context.Context, c client.Client, env *v1alpha1.Environment) error {
			return backupDatabase(o, ctx, c, env, f)
		})
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		f.sized = cmd.Flags().Changed("size") || cmd.Flags().Changed("storage-class")
		if err := f.check(methods); err != nil {
			return err
		}
		return run(cmd, args)
	}
	flags := cmd.Flags()
	flags.StringVar(&f.method, "method", methods[0], "How, one of: "+strings.Join(methods, ", ")+".")
	flags.StringVar(&f.size, "size", "10Gi", "The size of the claim for dumps, if it is made.")
	flags.StringVar(&f.class, "storage-class", "", "The StorageClass of the claim for dumps, if it is made. Without it: the cluster's default.")
	_ = cmd.RegisterFlagCompletionFunc("method", cobra.FixedCompletions(methods, cobra.ShellCompDirectiveNoFileComp)) // fails for a flag that does not exist
	f.flags(cmd, "End when the backup is Ready; with exit code 1 if it fails.")
	command.DryRunFlag(cmd, &f.dryRun)
	o.OutputFlag(cmd, printers.JSON, printers.YAML, printers.Name)
	return cmd
}

func (f *envBackupDatabase) check(methods []string) error {
	if err := command.CheckDryRun(f.dryRun); err != nil {
		return err
	}
	switch render.BackupMethod(f.method) {
	case render.BackupAuto, render.BackupSnapshot, render.BackupDump:
	default:
		return fmt.Errorf("--method is %q: it must be one of %s", f.method, strings.Join(methods, ", "))
	}
	if size, err := resource.ParseQuantity(f.size); err != nil || size.Sign() <= 0 {
		return fmt.Errorf("--size is %q: it must be a quantity such as 10Gi", f.size)
	}
	return nil
}

func backupDatabase(o *command.Options, ctx context.Context, c client.Client, env *v1alpha1.Environment, f *envBackupDatabase) error {
	if err := mayBackUp(env); err != nil {
		return err
	}
	name := render.BackupName(o.Now())
	method, objects, err := plannedBackup(o, ctx, c, env, name, f)
	if err != nil {
		return fmt.Errorf("%s: %w", environmentName(env.Name), err)
	}
	if err := makeBackup(o, ctx, c, objects, f.dryRun); err != nil {
		return err
	}
	if f.dryRun != command.DryRunNone {
		return nil
	}
	return waitForDatabase(o, ctx, &f.databaseWait, backupResource(method, name), func(ctx context.Context) (render.Backup, error) {
		list, err := readBackups(o, ctx, c, env)
		if err != nil {
			return render.Backup{}, err
		}
		b, err := list.find(backupResource(method, name))
		if err != nil {
			return render.Backup{}, err
		}
		return *b, nil
	})
}

// plannedBackup are the objects that make a backup, the backup itself last. It says how and why.
func plannedBackup(o *command.Options, ctx context.Context, c client.Client, env *v1alpha1.Environment, name string, f *envBackupDatabase) (render.BackupMethod, []*unstructured.Unstructured, error) {
	why := "as configured"
	if f.method != string(render.BackupDump) {
		source, reason, err := findSnapshotSource(o, ctx, c, env)
		switch {
		case err != nil:
			return "", nil, err
		case reason == "":
			fmt.Fprintf(o.ErrOut, "Backs up by snapshot: claim %s is of driver %s, which has VolumeSnapshotClass %s.\n", source.claim, source.driver, source.class)
			return render.BackupSnapshot, []*unstructured.Unstructured{render.Snapshot(env, name, source.claim, source.class)}, nil
		case f.method == string(render.BackupSnapshot):
			return "", nil, fmt.Errorf("--method is snapshot, and there can be none: %s", reason)
		}
		why = "there can be no snapshot, since " + reason
	}
	if err := databaseServes(env); err != nil {
		return "", nil, fmt.Errorf("method dump (%s): %w", why, err)
	}
	objects, err := dumpObjects(o, ctx, c, env, name, f)
	if err == nil {
		fmt.Fprintf(o.ErrOut, "Backs up by dump: %s.\n", why)
	}
	return render.BackupDump, objects, err
}

// dumpObjects are the objects that make a dump: the Job, and the claim if it is not there.
func dumpObjects(o *command.Options, ctx context.Context, c client.Client, env *v1alpha1.Environment, name string, f *envBackupDatabase) (list []*unstructured.Unstructured, err error) {
	claim := &corev1.PersistentVolumeClaim{}
	key := client.ObjectKey{Namespace: env.Status.Namespace, Name: render.BackupsClaim}
	var made []runtime.Object
	switch err := c.Get(ctx, key, claim); {
	case apierrors.IsNotFound(err):
		size, err := resource.ParseQuantity(f.size)
		if err != nil {
			return nil, fmt.Errorf("--size is %q: %w", f.size, err)
		}
		made = append(made, render.ClaimOfBackups(env, size, f.class))
	case err != nil:
		return nil, fmt.Errorf("read PersistentVolumeClaim %s: %w", key, err)
	case claim.Labels[render.BackupOfLabel] != env.Name:
		return nil, fmt.Errorf("PersistentVolumeClaim %s is there and not for backups: its label %s is %q, not %q", key, render.BackupOfLabel, claim.Labels[render.BackupOfLabel], env.Name)
	case claim.DeletionTimestamp != nil:
		return nil, fmt.Errorf("PersistentVolumeClaim %s is being deleted", key)
	case f.sized:
		o.Warn("PersistentVolumeClaim %s is there already: --size and --storage-class are of no use", key)
	}
	for _, object := range append(made, render.DumpJob(env, name)) {
		u, err := asUnstructured(object)
		if err != nil {
			return nil, err
		}
		list = append(list, u)
	}
	return list, nil
}

// asUnstructured is an object as it is made: what is empty is left out.
func asUnstructured(object runtime.Object) (*unstructured.Unstructured, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, fmt.Errorf("%T: %w", object, err)
	}
	unstructured.RemoveNestedField(content, "spec", "template", "metadata", "creationTimestamp")
	return plain(&unstructured.Unstructured{Object: content}), nil
}

// makeBackup makes objects, and reports it or prints them.
func makeBackup(o *command.Options, ctx context.Context, c client.Client, objects []*unstructured.Unstructured, dryRun string) error {
	for i, u := range objects {
		if err := createObject(ctx, c, u.DeepCopy(), dryRun); err != nil {
			return err
		}
		switch o.Output {
		case printers.JSON, printers.YAML:
		case printers.Name: // the backup alone: it is what --from takes
			if i == len(objects)-1 {
				fmt.Fprintln(o.Out, resourceOf(u))
			}
		default:
			fmt.Fprintf(o.Out, "%s created%s\n", resourceOf(u), command.DryRunText(dryRun))
		}
	}
	if len(objects) == 1 {
		_, err := o.Print(objects[0].Object)
		return err
	}
	items := make([]any, 0, len(objects))
	for _, u := range objects {
		items = append(items, u.Object)
	}
	_, err := o.Print(map[string]any{"apiVersion": "v1", "kind": "List", "items": items})
	return err
}

// createObject makes an object, unless nothing should be written.
func createObject(ctx context.Context, c client.Client, u *unstructured.Unstructured, dryRun string) error {
	if dryRun == command.DryRunClient {
		return nil
	}
	err := c.Create(ctx, u, creates(dryRun)...)
	switch {
	case apierrors.IsAlreadyExists(err):
		return fmt.Errorf("there is a %s already", keyOf(u))
	case err != nil:
		return fmt.Errorf("create %s: %w", keyOf(u), err)
	}
	return nil
}

// resourceOf is how kubectl names an object.
func resourceOf(u *unstructured.Unstructured) string {
	return resourceName(u.GroupVersionKind(), u.GetName())
}
