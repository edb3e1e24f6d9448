// SPDX-License-Identifier: Apache-2.0

package fluxobj

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/csaupgrade"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Owner is the field owner of the operator's writes.
const Owner = "okara-operator"

// annotationSum has the digest of the last write, to find fields removed since.
const annotationSum = "okara.dev/applied"

// MissingError says that the cluster does not serve a kind.
type MissingError struct{ Kind schema.GroupKind }

func (e *MissingError) Error() string {
	return fmt.Sprintf("the cluster has no kind %s: install the Flux controller that provides it", e.Kind)
}

// Convert makes an object of what encodes as JSON, without status.
func Convert(o any) (*unstructured.Unstructured, error) {
	u, _, err := convert(o)
	return u, err
}

func convert(o any) (*unstructured.Unstructured, []byte, error) {
	b, err := json.Marshal(o)
	if err != nil {
		return nil, nil, err
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(b); err != nil {
		return nil, nil, err
	}
	delete(u.Object, "status")
	return u, b, nil
}

// Encode is [Convert] for an object that is written: it notes the digest of its content.
func Encode(o any) (*unstructured.Unstructured, error) {
	u, b, err := convert(o)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(b)
	u.SetAnnotations(With(u.GetAnnotations(), annotationSum, hex.EncodeToString(sum[:16])))
	return u, nil
}

// Annotate sets an annotation that does not count as content of the object.
func Annotate(o *unstructured.Unstructured, key, value string) {
	o.SetAnnotations(With(o.GetAnnotations(), key, value))
}

// With sets a label or an annotation.
func With(all map[string]string, key, value string) map[string]string {
	if all == nil {
		all = map[string]string{}
	}
	all[key] = value
	return all
}

// SameSource reports whether live was last written with the content of want, from [Encode].
func SameSource(live, want *unstructured.Unstructured) bool {
	return live.GetAnnotations()[annotationSum] == want.GetAnnotations()[annotationSum]
}

// Client reads and writes one UID's objects, without cache.
type Client struct {
	client.Client
	UID types.UID
}

// Get returns an object, or nil if there is none; one that is not ours with a [*TakenError].
func (c Client) Get(ctx context.Context, apiVersion, kind string, key client.ObjectKey) (*unstructured.Unstructured, error) {
	o := &unstructured.Unstructured{}
	o.SetAPIVersion(apiVersion)
	o.SetKind(kind)
	err := c.Client.Get(ctx, key, o)
	switch {
	case apierrors.IsNotFound(err) && !isUnserved(err):
		return nil, nil
	case err != nil:
		return nil, missingError(err, o)
	case !Ours(o, c.UID):
		return o, &TakenError{Kind: kind, Key: key}
	}
	return o, nil
}

// Write makes an object match want, from live of [Client.Get].
func (c Client) Write(ctx context.Context, live, want *unstructured.Unstructured) (now *unstructured.Unstructured, changed bool, err error) {
	if live != nil && SameSource(live, want) && CoversValue(live.Object, want.Object) {
		return live, false, nil
	}
	now = want.DeepCopy()
	if live == nil {
		return now, true, missingError(c.Create(ctx, now, client.FieldOwner(Owner)), now)
	}
	if err := c.ownFields(ctx, live); err != nil {
		return nil, false, err
	}
	now.SetUID(live.GetUID()) // not an object that replaced it
	err = c.Apply(ctx, client.ApplyConfigurationFromUnstructured(now), client.FieldOwner(Owner), client.ForceOwnership)
	return now, true, missingError(err, now)
}

// Ensure creates or updates an object to match want, and returns the result.
func (c Client) Ensure(ctx context.Context, want *unstructured.Unstructured) (now *unstructured.Unstructured, changed bool, err error) {
	live, err := c.Get(ctx, want.GetAPIVersion(), want.GetKind(), client.ObjectKeyFromObject(want))
	if err != nil {
		return nil, false, err
	}
	return c.Write(ctx, live, want)
}

// Clean deletes our object, and reports whether it is gone; another's stays, and counts as gone.
func (c Client) Clean(ctx context.Context, apiVersion, kind string, key client.ObjectKey) (gone bool, err error) {
	live, err := c.Get(ctx, apiVersion, kind, key)
	switch {
	case IsTaken(err):
		return true, nil
	case err != nil || live == nil:
		return err == nil, err
	}
	return false, c.Remove(ctx, live)
}

// IsTaken reports whether an error says that the object belongs to another owner.
func IsTaken(err error) bool {
	_, is := errors.AsType[*TakenError](err)
	return is
}

// ownFields transfers fields to the owner of applies, or later ones would not remove them.
func (c Client) ownFields(ctx context.Context, live *unstructured.Unstructured) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error { // Flux writes statuses meanwhile
		whole, err := c.Get(ctx, live.GetAPIVersion(), live.GetKind(), client.ObjectKeyFromObject(live))
		if err != nil || whole == nil {
			return err
		}
		patch, err := csaupgrade.UpgradeManagedFieldsPatch(whole, sets.New(Owner), Owner)
		if err != nil || patch == nil {
			return err
		}
		return c.Client.Patch(ctx, whole, client.RawPatch(types.JSONPatchType, patch), client.FieldOwner(Owner))
	})
}

// Change merges a patch into an object. It fails if that changed since it was read.
func (c Client) Change(ctx context.Context, live *unstructured.Unstructured, how map[string]any) error {
	metadata, _ := how["metadata"].(map[string]any)
	if metadata == nil {
		metadata = map[string]any{}
	}
	metadata["resourceVersion"] = live.GetResourceVersion()
	how["metadata"] = metadata
	b, err := json.Marshal(how)
	if err != nil {
		return err
	}
	return c.Client.Patch(ctx, live, client.RawPatch(types.MergePatchType, b), client.FieldOwner(Owner))
}

// Remove deletes exactly this object. The object may continue to exist for some time.
func (c Client) Remove(ctx context.Context, live *unstructured.Unstructured) error {
	uid := live.GetUID()
	return client.IgnoreNotFound(c.Delete(ctx, live, client.Preconditions{UID: &uid}))
}

func missingError(err error, o *unstructured.Unstructured) error {
	if meta.IsNoMatchError(err) || isUnserved(err) {
		return &MissingError{o.GroupVersionKind().GroupKind()}
	}
	return err
}

// isUnserved reports whether the kind does not exist, removed since discovery.
func isUnserved(err error) bool {
	return apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// CoversValue reports whether live has all of want; defaults and controllers may add more.
func CoversValue(live, want any) bool {
	switch want := want.(type) {
	case nil:
		return live == nil
	case map[string]any:
		live, _ := live.(map[string]any)
		for key, value := range want {
			if !CoversValue(live[key], value) {
				return false
			}
		}
		return true
	case []any:
		live, ok := live.([]any)
		if !ok && len(want) > 0 || len(live) != len(want) {
			return false
		}
		for i := range want {
			if !CoversValue(live[i], want[i]) {
				return false
			}
		}
		return true
	default:
		return live == want
	}
}
