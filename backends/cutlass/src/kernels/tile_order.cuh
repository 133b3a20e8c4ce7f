// The order of tiles (rasterisation): groups of 8 rows of tiles, so that tiles that run at the same time share operands in
// the L2 cache.
struct TileCoord {
  int m, n;
};
__device__ inline TileCoord tile_coord(int at, int rows, int columns) {
  int group = at / (8 * columns) * 8, within = at % (8 * columns), height = min(rows - group, 8);
  return {group + within % height, within / height};
}
