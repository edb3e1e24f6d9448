// SPDX-License-Identifier: Apache-2.0

package depot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/signing"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/internal/trust"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// maxDistFile bounds the text files of a release, in bytes.
const maxDistFile = 1 << 20

// packageParallel is how many zips are hashed concurrently.
const packageParallel = 2

// dist is a directory with the files of one release.
type dist struct {
	fsys     fs.FS
	provider addr.Provider
	version  addr.Version
	stem     string // "terraform-provider-dns_1.2.3_"
	zips     map[addr.Platform]string
	stored   []Package // packages that are not in the directory
	names    []string  // all files, sorted
}

func readDist(fsys fs.FS, p addr.Provider, v addr.Version, stored []Package) (*dist, error) {
	entries, err := fs.ReadDir(fsys, ".")
	if err != nil {
		return nil, err
	}
	d := &dist{fsys: fsys, provider: p, version: v, stem: signing.PackageStem(p, v), zips: map[addr.Platform]string{}, stored: stored}
	for _, e := range entries {
		if e.IsDir() {
			continue
		}
		d.names = append(d.names, e.Name())
		if !strings.HasSuffix(e.Name(), ".zip") {
			continue
		}
		platform, err := signing.PackagePlatform(p, v, e.Name())
		if err != nil {
			return nil, err
		}
		d.zips[platform] = e.Name()
	}
	for _, k := range stored {
		if _, err := signing.PackagePlatform(p, v, k.Filename); err != nil {
			return nil, err
		}
		if slices.Contains(d.names, k.Filename) {
			return nil, fmt.Errorf("duplicate %s: %w", k.Filename, signing.ErrNoProvider)
		}
		d.names = append(d.names, k.Filename)
	}
	slices.Sort(d.names)
	if len(d.zips)+len(stored) == 0 {
		return nil, fmt.Errorf("no zip named %sOS_ARCH.zip: %w", d.stem, signing.ErrNoProvider)
	}
	return d, nil
}

// packages inspects all zips and adds the packages that were inspected before.
func (d *dist) packages(ctx context.Context) ([]Package, error) {
	var platforms []addr.Platform
	for p := range d.zips {
		platforms = append(platforms, p)
	}
	slices.SortFunc(platforms, addr.Platform.Compare)
	packages := make([]Package, len(platforms))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(packageParallel)
	for i, p := range platforms {
		g.Go(func() (err error) {
			packages[i], err = inspectPackage(ctx, d.fsys, d.zips[p], d.provider.Type, p)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	packages = append(packages, d.stored...)
	slices.SortFunc(packages, func(a, b Package) int { return a.Platform.Compare(b.Platform) })
	return packages, nil
}

func (d *dist) readDistFile(name string, most int64) ([]byte, error) {
	f, err := d.fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(b)) > most {
		err = fmt.Errorf("%s: more than %d bytes: %w", name, most, oci.ErrTooLarge)
	}
	return b, err
}

// findFile returns the first of the names that is in the directory, or "".
func (d *dist) findFile(names ...string) string {
	for _, name := range names {
		if _, ok := slices.BinarySearch(d.names, name); ok {
			return name
		}
	}
	return ""
}

// manifestFile is the name of the registry manifest in the source of a provider.
const manifestFile = "terraform-registry-manifest.json"

// registryManifest reads a release's registry manifest, if any, and its protocols. GoReleaser lists
// it in SHA256SUMS as PREFIX_manifest.json, and leaves it above the folder of the release.
func (d *dist) registryManifest(plan *ProviderPlan, o ProviderOptions) error {
	listed := d.stem + "manifest.json"
	sum := plan.sums[listed]
	text := o.Manifest
	name := d.findFile(listed, manifestFile)
	switch {
	case name != "":
		var err error
		if text, err = d.readDistFile(name, maxDistFile); err != nil {
			return err
		}
	case sum == "":
		if text != nil && len(o.Protocols) == 0 {
			plan.Warnings = append(plan.Warnings, manifestFile+" above the folder was not used, since SHA256SUMS does not list it; --protocols sets what it says")
		}
		text = nil // perhaps that of another release
	case text == nil:
		return fmt.Errorf("%s lists %s, but neither it nor %s is in the folder or its parent: %w", plan.metadata.ShasumsName, listed, manifestFile, signing.ErrSums)
	default:
		name = manifestFile + " in the parent folder"
	}
	if text != nil && sum != "" {
		if err := plan.sums.Check(listed, hexSHA256(text)); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	plan.metadata.RegistryManifest = text
	plan.Protocols = []string{artifact.DefaultProtocol}
	switch {
	case len(o.Protocols) > 0:
		plan.Protocols = o.Protocols
	case text != nil:
		var err error
		if plan.Protocols, err = signing.ParseRegistryManifest(text); err != nil {
			return fmt.Errorf("%s: %w: %w", name, err, ErrManifest)
		}
	}
	return nil
}

// ErrManifest means that the registry manifest of a release cannot be read.
var ErrManifest = errors.New("the protocols are unknown")

// checkSums compares SHA256SUMS with the zips, or creates it if there is none.
func (d *dist) checkSums(plan *ProviderPlan) error {
	name := d.findFile(d.stem+"SHA256SUMS", "SHA256SUMS")
	if name == "" {
		plan.makeSums(d.stem + "SHA256SUMS")
		return nil
	}
	b, err := d.readDistFile(name, maxDistFile)
	if err != nil {
		return err
	}
	if err := plan.takeSums(name, b); err != nil {
		return err
	}
	for _, k := range plan.Packages {
		if err := plan.sums.Check(k.Filename, k.SHA256); err != nil {
			return err
		}
	}
	for _, listed := range slices.Sorted(maps.Keys(plan.sums)) {
		switch there := d.findFile(listed) != ""; {
		case there, listed == d.stem+"manifest.json": // it may be above
		case strings.HasSuffix(listed, ".zip"):
			return fmt.Errorf("%s lists %s, which is not in the folder: %w", name, listed, signing.ErrSums)
		default:
			plan.Warnings = append(plan.Warnings, fmt.Sprintf("%s lists %s, which is not in the folder", name, text.Excerpt(listed)))
		}
	}
	return nil
}

// checkSignature verifies the signature in the directory, or creates one.
func (d *dist) checkSignature(plan *ProviderPlan, o ProviderOptions) error {
	keys, err := o.knownKeys()
	if err != nil {
		return err
	}
	sums := plan.metadata.ShasumsName
	name := d.findFile(sums+".sig", sums+".gpgsig")
	if name == "" && o.SignKey == nil {
		return fmt.Errorf("no %s.sig and no key to create one: %w", sums, trust.ErrUnsigned)
	}
	var signature []byte
	if name != "" {
		signature, err = d.readDistFile(name, maxDistFile)
	} else {
		signature, err = o.sign(plan.metadata.ShasumsBytes)
	}
	if err != nil {
		return err
	}
	if err = plan.takeSignature(signature, keys, signing.VerifyOptions{Now: o.Now}); err != nil && name != "" && o.SignKey != nil {
		err = fmt.Errorf("%w; remove the .sig to sign again", err)
	}
	return err
}

func (o ProviderOptions) knownKeys() ([]signing.PublicKey, error) {
	keys := slices.Clone(o.Keys)
	for _, k := range o.signers() {
		public, err := k.Public()
		if err != nil {
			return nil, err
		}
		keys = append(keys, public)
	}
	return keys, nil
}

func (o ProviderOptions) signers() []*signing.Key {
	if o.SignKey == nil {
		return nil
	}
	return append([]*signing.Key{o.SignKey}, o.AlsoSign...)
}

// sign returns one signature packet for each key; clients skip those of unknown keys.
func (o ProviderOptions) sign(message []byte) ([]byte, error) {
	var packets []byte
	for _, k := range o.signers() {
		packet, err := k.Sign(message, o.Now)
		if err != nil {
			return nil, err
		}
		packets = append(packets, packet...)
	}
	return packets, nil
}
