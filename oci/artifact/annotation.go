// SPDX-License-Identifier: Apache-2.0

package artifact

import (
	"errors"
	"fmt"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/oci"
)

// Annotations that several artifact kinds share. The OCI keys are the image specification's.
const (
	AnnTitle    = "org.opencontainers.image.title"
	AnnVersion  = "org.opencontainers.image.version"
	AnnSource   = "org.opencontainers.image.source"
	AnnRevision = "org.opencontainers.image.revision"
	AnnCreated  = "org.opencontainers.image.created"

	AnnKind          = "vnd.okara.kind" // of an address, such as "module", or of a record
	annAddress       = "vnd.okara.address"
	AnnOkaraVersion  = "vnd.okara.version" // with "+", unlike the tag
	annContentDigest = "vnd.okara.content-digest"
	annModuleH1      = "vnd.okara.h1"
	AnnSourceRef     = "vnd.okara.source-ref"
	AnnSourcePath    = "vnd.okara.source-path"
	AnnModulePath    = "vnd.okara.module-path" // directory of the module in its package, if it is not the package
	AnnModuleDir     = "vnd.okara.module-dir"  // the same, if users address it themselves
	AnnChanges       = "vnd.okara.changes"     // changes since the previous version, one per line, at most MaxChanges bytes

	annProtocols = "vnd.okara.provider.protocols" // "5.0,6.0"
	annSignature = "vnd.okara.provider.signature" // SignatureVerified or SignatureNone
	annFilename  = "vnd.okara.provider.filename"
	annZh        = "vnd.okara.provider.zh"
	annH1        = "vnd.okara.provider.h1"
	annSize      = "vnd.okara.provider.size"
)

// MaxChanges bounds the value of AnnChanges, in bytes.
const MaxChanges = 2 << 10

// KindStatus is the AnnKind of a status record. Modules, providers and mirrors use the kinds of
// addresses; each other record has its own.
const KindStatus = "status"

// Values of AnnSignature.
const (
	SignatureVerified = "verified"
	SignatureNone     = "none" // the origin publishes no key
)

// AnnotationsOf returns the annotations of an index or an image manifest; nil for anything else.
func AnnotationsOf(m oci.Manifest) map[string]string {
	if index, err := m.Index(); err == nil {
		return index.Annotations
	}
	image, err := m.Image()
	if err != nil {
		return nil
	}
	return image.Annotations
}

// ErrSignsOther means that a signature is of something else.
var ErrSignsOther = errors.New("not of this version")

// SaysItIs returns [ErrSignsOther] unless the manifest names the given item and version, so that
// one signed as one module does not pass for another: a bundle names only a digest, wherever the
// manifest is copied. An edition carries the version that it was published as.
func SaysItIs(m oci.Manifest, it addr.Item, v addr.Version) error {
	says := AnnotationsOf(m)
	for _, x := range []struct{ annotation, want string }{
		{AnnKind, it.Kind}, {annAddress, it.String()}, {AnnOkaraVersion, v.EditionOf().String()},
	} {
		if got := says[x.annotation]; got != x.want {
			return fmt.Errorf("the signature is for a manifest with %s %q, not %q: %w", x.annotation, text.Excerpt(got), x.want, ErrSignsOther)
		}
	}
	return nil
}
