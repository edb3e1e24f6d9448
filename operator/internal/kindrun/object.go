// SPDX-License-Identifier: Apache-2.0

package kindrun

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/fluxexec"
	"github.com/seed-141914ff/okara/operator/internal/fluxobj"
	"github.com/seed-141914ff/okara/operator/internal/fluxrun"
	"github.com/seed-141914ff/okara/operator/internal/records"
	"github.com/seed-141914ff/okara/operator/internal/runaccess"
	"github.com/seed-141914ff/okara/operator/internal/verdict"
)

// Options configure how objects are reconciled.
type Options struct {
	Client   client.Client // not cached
	Access   *runaccess.Access
	Records  records.Store
	Executor *fluxexec.Executor
	// Want returns what runs for an object, without side effects. The error is for its author.
	Want func(def *v1alpha1.ModuleKind, o *unstructured.Unstructured) (Wanted, error)
	// Readers returns roles that let the readers of a definition read exactly a Secret and a
	// ConfigMap, each unless "", beside the object. Both are nil if there is no reader.
	Readers func(def *v1alpha1.ModuleKind, o metav1.Object, secret, plan string) (*rbacv1.Role, *rbacv1.RoleBinding)
	Gate    string // where tofu-controller shows plans; "": plans cannot be approved
	Network fluxobj.RunNetwork
	Events  events.EventRecorder
	Now     func() time.Time // nil: time.Now
}

// Objects reconciles objects. It is safe for concurrent use, on different objects.
type Objects struct {
	Options
	runner fluxrun.Runner
}

// New returns a reconciler of objects.
func New(o Options) *Objects {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Objects{o, fluxrun.Runner{Client: o.Client, Flux: o.Executor, Access: o.Access}}
}

// pending is how soon an object that is under way is reconciled again.
const pending = 5 * time.Second

// object is an object that is being reconciled.
type object struct {
	*Objects
	def    *v1alpha1.ModuleKind
	o      *unstructured.Unstructured
	want   Wanted
	access runaccess.Run
	before status // as it is in the cluster
	status status // to be written
}

func (c *Objects) newObject(def *v1alpha1.ModuleKind, o *unstructured.Unstructured) (*object, error) {
	x := &object{Objects: c, def: def, o: o.DeepCopy()}
	return x, errors.Join(verdict.ReadStatus(o, &x.before), verdict.ReadStatus(o, &x.status))
}

// Reconcile takes the next steps, writes the status, and returns when to reconcile again. After an
// error it must be called again.
func (c *Objects) Reconcile(ctx context.Context, def *v1alpha1.ModuleKind, o *unstructured.Unstructured) (time.Duration, error) {
	if o.GetDeletionTimestamp() != nil && !controllerutil.ContainsFinalizer(o, v1alpha1.FinalizerRun) {
		return 0, nil
	}
	x, err := c.newObject(def, o)
	if err != nil {
		return 0, err
	}
	after, err := x.step(ctx)
	wrong, reason := fluxrun.Explain(err)
	switch {
	case err == nil:
	case reason:
		x.status.sayRefused(wrong, x.o.GetGeneration())
		after = max(after, wrong.After)
		err = nil
	case isPassing(ctx, err):
		return 0, err
	default:
		x.status.sayFailing(err, x.o.GetGeneration())
		after = 0
	}
	if err := x.writeStatus(ctx); err != nil {
		return 0, err
	}
	return after, err
}

// Report writes to the status of an object that an error stops it, and returns the error.
func (c *Objects) Report(ctx context.Context, o *unstructured.Unstructured, err error) error {
	if isPassing(ctx, err) {
		return err
	}
	x, wrong := c.newObject(nil, o)
	if wrong != nil {
		return errors.Join(err, wrong)
	}
	x.status.sayFailing(err, o.GetGeneration())
	return errors.Join(err, x.writeStatus(ctx))
}

// isPassing reports whether an error is not the object's: another wrote first, or we end.
func isPassing(ctx context.Context, err error) bool {
	return ctx.Err() != nil || apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err)
}

func (x *object) step(ctx context.Context) (time.Duration, error) {
	x.status.Namespace = x.runNamespace()
	want, err := x.Want(x.def, x.o)
	if err != nil && !x.isEnding() {
		return 0, &verdict.Problem{Reason: v1alpha1.ReasonInvalid, Message: err.Error()}
	}
	x.want = want
	x.locate()
	if x.isEnding() {
		return endObject(ctx, x)
	}
	return x.reconcileRun(ctx)
}

func (x *object) runNamespace() string { return runNamespaceOf(x.def, x.o) }

func (x *object) uid() types.UID { return v1alpha1.UIDOf(x.o) }

func (x *object) isEnding() bool { return x.o.GetDeletionTimestamp() != nil }

func (x *object) isDedicated() bool { return x.runNamespace() != x.o.GetNamespace() }

// locate fills in the fields that depend on where the object runs.
func (x *object) locate() {
	x.want.Run.Gate = x.Gate
	x.access = x.want.Locate(x.def, x.o)
}

func (x *object) reconcileRun(ctx context.Context) (time.Duration, error) {
	before := x.o.DeepCopy()
	if controllerutil.AddFinalizer(x.o, v1alpha1.FinalizerRun) {
		if err := x.Client.Patch(ctx, x.o, verdict.Since(before)); err != nil {
			return 0, err
		}
	}
	sum, err := x.want.sum()
	if err != nil {
		return 0, err
	}
	run := x.requestedRun()
	x.want.Run.ForceUnlock = x.o.GetAnnotations()[v1alpha1.AnnotationUnlock]
	now, err := x.runner.Apply(ctx, run)
	if err != nil {
		return 0, err
	}
	x.status.noteRequests(x.o)
	if err := x.decide(ctx, &now.Status, sum); err != nil {
		return 0, err
	}
	x.status.projectRun(now.Status, now.Changed, sum, x.o.GetGeneration(), x.Now())
	if err := publishResults(ctx, x, now.Status); err != nil {
		return 0, err
	}
	if now.Phase != fluxexec.Applied && now.Phase != fluxexec.Suspended {
		return min(pending, now.Renew), nil
	}
	return max(pending, min(cmp.Or(x.want.Run.Interval.Duration, 10*time.Minute), now.Renew)), nil
}

func (x *object) requestedRun() *fluxrun.Run {
	if x.status.Plan.isOld(x.Now()) {
		x.status.Replanned = x.Now().UTC().Format(time.RFC3339)
	}
	run := &fluxrun.Run{
		Module: &x.want.Run, Access: x.access, Copies: x.want.Copies, EnsureNamespace: x.ensureNamespace, Adopts: func(ctx context.Context) bool { return fluxobj.Adopts(ctx, x.Client, x.o.GetNamespace()) },
		Request: func(ready, copies string) string {
			return strings.Join([]string{verdict.RequestOf(x.o), ready, copies + x.status.Replanned}, "/")
		},
	}
	if x.isDedicated() {
		run.RunNamespace = &fluxobj.RunNamespace{
			Name: x.runNamespace(), UID: x.uid(), Account: x.want.Run.ServiceAccountName, Annotations: x.def.Spec.Run.AccountAnnotations, Network: x.Network,
		}
	}
	return run
}

func (x *object) emitEvent(reason, note string, args ...any) {
	if x.Events != nil {
		x.Events.Eventf(x.o, nil, corev1.EventTypeNormal, reason, "Run", note, args...)
	}
}

// Wanted is the run that an object and its definition ask for.
type Wanted struct {
	// Run lacks the fields that depend on where it runs: namespace, UID, access.
	Run     fluxexec.Spec
	Address string         // of the module; "": none
	Copies  []fluxrun.Copy // Secrets that the run reads
}

// sum is a digest of the module and the values of a run, without how it runs.
func (w *Wanted) sum() (string, error) {
	b, err := json.Marshal([]any{w.Run.Module.Digest, w.Run.Module.Path, w.Run.Variables, w.Run.VariablesFrom, w.Copies})
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16]), err
}

func runNamespaceOf(def *v1alpha1.ModuleKind, o metav1.Object) string {
	if def.Spec.Run.Namespace == v1alpha1.NamespaceObject {
		return o.GetNamespace()
	}
	return runNamespacePrefix + string(v1alpha1.UIDOf(o))
}

// Locate fills in where the object runs, and returns the run, without a request.
func (w *Wanted) Locate(def *v1alpha1.ModuleKind, o metav1.Object) runaccess.Run {
	r := &w.Run
	r.Namespace = runNamespaceOf(def, o)
	r.UID = v1alpha1.UIDOf(o)
	r.Name = def.Spec.Run.Prefix + o.GetName()
	if len(def.Spec.Outputs.Include) > 0 {
		r.OutputsSecret = r.Name + "-okara-raw"
	}
	if r.ServiceAccountName == "" && r.Namespace != o.GetNamespace() {
		r.ServiceAccountName = fluxobj.Account
	}
	return runaccess.Run{
		Namespace: o.GetNamespace(), UID: r.UID, Workspace: def.Spec.Names.Plural + "." + o.GetName(), Module: w.Address,
		RunNamespace: r.Namespace, Name: r.Name, Repository: r.Module.Repository, Adopt: o.GetAnnotations()[v1alpha1.AnnotationAdopt] == "true",
	}
}
