// Mean and squared deviations of values, in parts that are merged.

// Mean and sum of squared deviations of `count` values.
struct Part {
  float count, mean, m2;
  __device__ void merge(Part other) {  // Chan, Golub and LeVeque, 1979
    float sum = count + other.count;
    if (sum == 0.0f) return;
    float share = other.count / sum, away = other.mean - mean;
    mean += away * share;
    m2 += other.m2 + away * away * count * share;
    count = sum;
  }
};
