// SPDX-License-Identifier: Apache-2.0

package repotest_test

// refused maps the words that no identifier may contain to their replacements.
const refused = `
beat: heartbeat
beaten: renewed
beating: renewing
beats: heartbeats
buried: tombstone
bury: writeTombstone
cold: background, renders
desk: inbox, admin
desks: inboxes
duties: deadlines
duty: deadline
furnish: provision
furnished: provisioned
furnishes: provisions
ghost: abandoned for a claim, dangling for a tag
ghostly: dangling
ghosts: abandoned for claims, dangling for tags
memo: cache
memos: caches
moment: timestamp
moments: timestamps
raze: deleteNamespace
razed: deleted
razes: deletes
relink: rewriteLinks
relinks: rewritesLinks
reveal: showSensitive
revealed: shown
reveals: shows
said: message, output, or what it is
sighting: observation
sightings: observations
snippet: example
snippets: examples
sweeps: cleansUp
swept: cleaned
tell: report
tells: reports
ticket: signedUpload
tickets: signer
told: reported
trail: auditLog
trails: auditLogs
twin: duplicate
twins: duplicates
wave: rolloutBatch
waves: rolloutBatches
wish: request
wished: requested
wishes: requests
`
